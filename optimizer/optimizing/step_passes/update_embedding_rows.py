"""Updates only those rows of an embedding table that the batch looked up: no gradient of the table's size is made.

Exact for SGD and Adagrad, which leave a row without a gradient where it is. Refuses: optimizers that move such rows
(Adam's moments decay at every step), tables that anything but lookups uses (a tied output layer), shared tables, ids
that are computed from trained parameters, gradients scaled by frequency.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from torch import fx

from optimizer.compiling.step.runtime import EMBEDDING, ROW_OPTIMIZERS, Design, ancestors, lookups
from optimizer.optimizing.step_passes.base import StepPass, StepReport, register_step_pass

MIN_ROWS_PER_LOOKUP = 1.0  # a table that a batch reads as a whole gains nothing


@register_step_pass
class UpdateEmbeddingRows(StepPass):
    name: ClassVar[str] = "update_embedding_rows"
    title: ClassVar[str] = "Update embedding tables by rows"
    summary: ClassVar[str] = "Gradients and updates of the looked-up rows only, in place of the whole table's."
    numerics: ClassVar[Literal["exact", "reassociates"]] = "reassociates"
    order: ClassVar[int] = 10

    def apply(self, graph: fx.GraphModule, design: Design, options: Any, report: StepReport) -> None:
        shared = {name for names in design["ties"] for name in names}
        for table, nodes in lookups(graph).items():
            if table not in design["parameters"] and table not in shared:
                continue  # frozen: it has no gradient anyway
            reason = _why_not(graph, design, table, nodes, shared)
            rows = graph.get_parameter(table).shape[0]
            looked_up = sum(node.meta["val"].shape[:-1].numel() for node in nodes)
            if reason is None and rows < MIN_ROWS_PER_LOOKUP * looked_up:
                reason = f"a step looks {looked_up} rows up, and the table has {rows}"
            if reason is not None:
                report.refused(nodes[0], reason)
                continue
            design["rows"].append(table)
            report.applied(nodes[0], f"{looked_up} looked-up rows are updated, not all {rows}")


def _why_not(graph: fx.GraphModule, design: Design, table: str, nodes: list[fx.Node], shared: set[str]) -> str | None:
    optimizer = design["optimizer"]["name"]
    if optimizer not in ROW_OPTIMIZERS:
        return f"{optimizer} moves rows that have no gradient, too: updating some only would be another optimizer"
    if table in shared:
        return "the table is shared with another parameter"
    for node in graph.graph.find_nodes(op="get_attr", target=table):
        for user in node.users:
            if user.target is not EMBEDDING or user.args[0] is not node:
                return f"the table is used by {user.name}, too"
    for node in nodes:
        if _flag(node, 3, "scale_grad_by_freq"):
            return "its gradient is scaled by how often an id occurs"
        ids = node.args[1]
        assert isinstance(ids, fx.Node)
        weights = [one for one in ancestors(ids) if one.op == "get_attr" and str(one.target) in design["parameters"]]
        if weights:
            return f"the ids are computed from {weights[0].name}, which is trained"
    return None


def _flag(node: fx.Node, place: int, name: str) -> bool:
    return bool(node.args[place] if len(node.args) > place else node.kwargs.get(name, False))
