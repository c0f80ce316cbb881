"""Residual add followed by RMSNorm or LayerNorm becomes one fused operation with two outputs: the normed sum, the sum.

Every kernel whose `passes` name this one offers its `match`; a new norm is one file in `kernels/ops/`. Refuses a norm
without a residual add before it, an add that broadcasts, and intermediates that something else needs as well.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from torch import fx

from kernels import KERNELS
from kernels.spec import Kernel, Match, Mismatch
from optimizer.optimizing.base import Pass, Report, register_pass
from optimizer.optimizing.graph import Graph


@register_pass
class FuseAddNorm(Pass):
    name = "fuse_add_norm"
    title = "Fuse residual add and norm"
    summary = "A residual add and the RMSNorm or LayerNorm behind it become one operation that reads memory once."
    numerics: ClassVar[Literal["exact", "reassociates"]] = "reassociates"
    order = 60

    def apply(self, graph: Graph, options: Any, report: Report) -> None:
        kernels = [kernel for kernel in KERNELS if self.name in kernel.passes]
        for node in graph.operations():
            for kernel in kernels:
                found = kernel.match(node)
                if isinstance(found, Mismatch):
                    report.refused(found.node, found.reason)
                elif found is not None:
                    fault = _obstacle(graph, found)
                    if fault is None:
                        _fuse(graph, kernel, found, report)
                    else:
                        report.refused(fault.node, fault.reason)
                if found is not None:
                    break


def _obstacle(graph: Graph, match: Match) -> Mismatch | None:
    normed, total = match.outputs
    assert normed is not None
    assert total is not None
    gone = {*match.inside, normed}
    for node in (*match.inside, total, normed):
        if node in graph.tainted:
            return Mismatch("a value in it shares memory with an in-place write", node)
    for node in match.inside:
        outsider = next((user for user in node.users if user not in gone), None)
        if outsider is not None:
            return Mismatch(f"{node.name} is needed by {outsider.name} as well", node)
    position = {node: index for index, node in enumerate(graph.nodes)}
    late = next((a for a in match.args if isinstance(a, fx.Node) and position[a] > position[total]), None)
    if late is not None:
        return Mismatch(f"{late.name} is computed only after the sum", late)
    return None


def _fuse(graph: Graph, kernel: Kernel, match: Match, report: Report) -> None:
    normed, total = match.outputs
    assert normed is not None
    assert total is not None
    others = [user for user in total.users if user not in match.inside and user is not normed]
    shared = f", the sum goes on to {len(others)} more" if others else ""
    report.applied(normed, f"{kernel.name} of {match.args[0]} and {match.args[1]}{shared}")
    fused = graph.call(kernel.op, *match.args, before=total, like=normed)
    new_normed = graph.item(fused, 0, before=total, like=normed)
    new_total = graph.item(fused, 1, before=total, like=total)
    graph.replace(normed, new_normed)
    graph.replace(total, new_total)
