"""A gather by constant indices over several dimensions reads one flattened dimension: DLRM's triangle of products.

`x[:, row, column]` = `x.flatten(1, 2)[:, row * columns + column]`. The general gather computes an address from all
indices for every element; a selection along one dimension copies, and runs of neighbours are slices:
- `select`: one index_select; the faster one in eager PyTorch and OpenVINO.
- `slices`: runs of consecutive positions are joined (a triangle of F vectors has F - 1 of them), right into the
  concatenation that reads them where that is the only user; `select` where runs are shorter than `min_run` on average.

The values are the same bit by bit. Not for indices that are computed, masks, indices outside of the dimension (the
error must stay), or dimensions that are dynamic or do not stand side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import fx

from optimizer.optimizing.base import Pass, PassOptions, Report, register_pass
from optimizer.optimizing.graph import Graph
from optimizer.optimizing.matching import dim_of, only_user

aten = torch.ops.aten
INDEX_DTYPES = (torch.int64, torch.int32)


@register_pass
class FlattenGathers(Pass):
    name = "flatten_gathers"
    title = "Flatten gathers"
    summary = "A gather by constant indices over several dimensions becomes slices of, or a selection along, one."
    numerics: ClassVar[Literal["exact", "reassociates"]] = "exact"
    order = 75

    class Options(PassOptions):
        form: Literal["slices", "select"] = Field(
            default="select", description="select: one index_select; slices: runs of neighbours are joined"
        )
        min_run: int = Field(default=4, ge=1, description="positions in a run, on average and at least, for slices")

    def apply(self, graph: Graph, options: Options, report: Report) -> None:
        for node in graph.operations(aten.index.Tensor):
            gather = _read(graph, node)
            if isinstance(gather, str):
                report.refused(node, gather)
            elif gather is not None:
                _rewrite(graph, gather, options, report)


@dataclass(frozen=True)
class _Gather:
    """`positions` count along dimensions `first` to `last` of `source`, flattened."""

    node: fx.Node
    source: fx.Node
    first: int
    last: int
    positions: torch.Tensor


def _read(graph: Graph, node: fx.Node) -> _Gather | str | None:
    """The gather at this node; a reason for a near miss; None when its indices are computed."""
    source, indices = node.args[:2]
    assert isinstance(source, fx.Node) and isinstance(indices, list | tuple)
    given = [(dim, graph.constant_value(index)) for dim, index in enumerate(indices) if index is not None]
    values = [value for _, value in given if value is not None]
    dims = [dim for dim, _ in given]
    if len(values) < len(given) or len(given) < 2:
        return None
    if any(value.dtype not in INDEX_DTYPES for value in values):
        return "an index is a mask"
    if any(b != a + 1 for a, b in pairwise(dims)):
        return "the indexed dimensions do not stand side by side"
    if any(value.dim() != 1 for value in values):
        return "an index has more than one dimension"
    sizes = [graph.shape(source)[dim] for dim in dims]
    if not all(isinstance(size, int) for size in sizes):
        return "an indexed dimension is dynamic"
    positions = torch.zeros(max(len(value) for value in values), dtype=torch.int64)
    for size, value in zip(sizes, values, strict=True):
        assert isinstance(size, int)
        if bool(((value < -size) | (value >= size)).any()):
            return f"an index lies outside of its dimension of {size}"
        positions = positions * size + torch.where(value < 0, value + size, value)
    if not len(positions):
        return "there is nothing to gather"
    return _Gather(node, source, dims[0], dims[-1], positions)


def _rewrite(graph: Graph, gather: _Gather, options: FlattenGathers.Options, report: Report) -> None:
    node, dim = gather.node, gather.first
    shape = graph.shape(gather.source)
    flat = graph.call(aten.flatten.using_ints, gather.source, dim, gather.last, before=node, like=node)
    runs = _runs(gather.positions)
    count, whole = len(gather.positions), prod(int(s) for s in shape[dim : gather.last + 1])
    if options.form == "select" or len(runs) * options.min_run > count:
        index = graph.constant(gather.positions, f"{node.name}_positions")
        report.applied(node, f"{count} of {whole} positions selected along one dimension")
        graph.replace(node, graph.call(aten.index_select.default, flat, dim, index, before=node, like=node))
        return
    parts = [graph.call(aten.slice.Tensor, flat, dim, a, b, before=node, like=node) for a, b in runs]
    report.applied(node, f"{count} of {whole} positions joined from {len(runs)} slices")
    user = only_user(node)
    if user is not None and graph.is_op(user, aten.cat.default) and dim_of(graph, user, _cat_dim(graph, user)) == dim:
        operands = [part for operand in user.args[0] for part in (parts if operand is node else [operand])]  # type: ignore[union-attr]
        graph.replace(user, graph.call(aten.cat.default, operands, dim, before=user, like=user))
        return
    graph.replace(node, graph.call(aten.cat.default, parts, dim, before=node, like=node))


def _cat_dim(graph: Graph, cat: fx.Node) -> int:
    return int(graph.arguments(cat)["dim"])


def _runs(positions: torch.Tensor) -> list[tuple[int, int]]:
    """(start, end) of maximal runs of consecutive positions, in order."""
    runs: list[tuple[int, int]] = []
    for position in positions.tolist():
        if runs and runs[-1][1] == position:
            runs[-1] = (runs[-1][0], position + 1)
        else:
            runs.append((position, position + 1))
    return runs
