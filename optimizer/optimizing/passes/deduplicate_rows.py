"""Computes once what the workload promises to repeat over the batch: one user, many candidates.

From the promised inputs (`contracts` of the workload) forward, what depends on these alone is computed for one row and
broadcast where it meets what varies. The rewritten graph is right only while the promise is kept: whoever runs it
checks that at every call, bit by bit, and takes the original where it is not (`compiling/guarded.py`, a package's
`run.py`). Which inputs these are is the workload's to say, never a recipe's.

Refuses a workload without a contract, and a batch of fixed size one. Stops, with the reason, at what may mix rows:
batch norm in training, sums and sorts over the batch, views that merge it with other dimensions, random numbers.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import fx

from optimizer.optimizing.base import Pass, PassOptions, Report, register_pass
from optimizer.optimizing.graph import Graph, same_size
from optimizer.optimizing.matching import one
from optimizer.optimizing.repeating import Repeating


@register_pass
class DeduplicateRows(Pass):
    name = "deduplicate_rows"
    title = "Compute once what repeats over the batch"
    summary = "What depends on inputs that the workload promises to repeat over the batch is computed for one row."
    numerics: ClassVar[Literal["exact", "reassociates"]] = "reassociates"
    order = 45

    def apply(self, graph: Graph, options: PassOptions, report: Report) -> None:
        promised = _promised(graph, report)
        if not promised:
            return
        copy = graph.copy()
        same = {node.name: node for node in graph.nodes}  # a copy's nodes go by the same names
        rows = [node for node in copy.inputs if same[node.name] in promised]
        work = Repeating(copy, rows, lambda node, reason: report.refused(same.get(node.name, node), reason))
        work.run()
        if not (work.once or work.split):
            report.refused(promised[0], "nothing is computed from the promised inputs alone")
            return
        names = ", ".join(node.name for node in promised)
        report.applied(promised[0], f"{len(work.once)} operations once a batch, as long as {names} repeat over it")
        for node, what in work.split:
            report.applied(same[node.name], what)
        graph.adopt(copy)
        graph.relies_on_promise = True


def _promised(graph: Graph, report: Report) -> list[fx.Node]:
    """The inputs that repeat, where their batch is one and the same dimension."""
    inputs = graph.inputs
    if not inputs:
        return []
    if graph.relies_on_promise:
        report.refused(inputs[0], "the graph has been rewritten for the promise before")
        return []
    if not graph.promised:
        report.refused(inputs[0], "the workload holds no contract: no input is promised to repeat over the batch")
        return []
    found = [inputs[place] for place in graph.promised]
    for node in found:
        if not graph.is_tensor(node) or not graph.shape(node) or node in graph.tainted:
            report.refused(node, "it has no batch, or is written in place")
            return []
        batch, first = graph.shape(node)[0], graph.shape(found[0])[0]
        if one(batch):
            report.refused(node, "the batch is always one")
            return []
        if not same_size(batch, first):
            report.refused(node, f"its first dimension is not that of {found[0].name}")
            return []
    return found
