"""Weighted sums over one stack of vectors become one batched matrix product: MMoE's gates over its experts.

`y_t = sum_n w_t[b, n] * v[b, n, :]` for t = 1..T is row t of `[w_1; ..; w_T] v`, a product of [T, N] and [N, D] a
sample. The stack is read once and not T times, and no [batch, N, D] of products is built. A product of one row of
weights and the same stack (matmul, einsum) joins the others. The stack may lie in any order: [batch, N, D] from
stack(dim=1), [N, batch, D], [batch, D, N].

Not where fewer than `min_sums` sums read one stack (a single fused multiply and sum reads it once, too), where the
products have other users, or where both operands vary over all dimensions (a dot product and no weighted sum).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import fx

from optimizer.optimizing.base import Pass, PassOptions, Report, register_pass
from optimizer.optimizing.graph import Graph, same_size
from optimizer.optimizing.matching import dim_of, one, only_user, skip_noops
from optimizer.optimizing.memory import handed_back, own_memory
from optimizer.optimizing.products import PRODUCTS, read_product

aten = torch.ops.aten
RANK = 3


@register_pass
class BatchWeightedSums(Pass):
    name = "batch_weighted_sums"
    title = "Batch weighted sums"
    summary = "Weighted sums over one stack of vectors, such as gates over experts, become one batched product."
    numerics: ClassVar[Literal["exact", "reassociates"]] = "reassociates"
    order = 105

    class Options(PassOptions):
        min_sums: int = Field(default=2, ge=1, description="weighted sums over one stack, at least")

    def apply(self, graph: Graph, options: Options, report: Report) -> None:
        groups: dict[tuple[fx.Node, _Axes], list[_Sum]] = {}
        for node in graph.operations(aten.sum.dim_IntList, *PRODUCTS):
            found = _product(graph, node) if not graph.is_op(node, aten.sum) else _weighted_sum(graph, node)
            if isinstance(found, str):
                report.refused(node, found)
            elif found is not None:
                groups.setdefault((found.values, found.axes), []).append(found)
        for group in groups.values():
            members = _before_first(graph, group, report)
            if len(members) >= options.min_sums:
                _Batch(graph, members).run(report)
            elif members and any(m.multiplied for m in members):
                reason = f"only {len(members)} weighted sums read {members[0].values.name}, below min_sums"
                report.refused(members[0].node, f"{reason} {options.min_sums}")


@dataclass(frozen=True)
class _Axes:
    """Which dimension of the values is the batch's, which is summed over and which is the vectors'."""

    batch: int
    summed: int
    features: int


@dataclass(frozen=True)
class _Sum:
    """`weights`, its dimensions in `order`, is [batch, 1, N] or [batch, N]. The sum is [batch, features], or
    [features, batch] when `flipped`, with one more dimension of size 1 at `kept`."""

    node: fx.Node
    values: fx.Node
    axes: _Axes
    weights: fx.Node
    order: tuple[int, ...]
    flipped: bool
    kept: int | None
    multiplied: bool  # as products that are summed, which reads the stack and writes another


def _weighted_sum(graph: Graph, node: fx.Node) -> _Sum | str | None:
    """The weighted sum at this node; a reason for a near miss; None when it is nothing of the kind."""
    arguments = graph.arguments(node)
    product, dims = arguments["self"], arguments["dim"]
    if not graph.is_op(product, aten.mul.Tensor) or not isinstance(dims, list | tuple) or len(dims) != 1:
        return None
    factors = [_unexpanded(graph, n) for n in product.args[:2] if graph.is_tensor(n)]
    summed = dim_of(graph, product, dims[0])
    if len(factors) != 2 or not graph.dtype(product).is_floating_point:
        return None
    for values, weights in (factors, factors[::-1]):
        axes = _axes(graph, product, values, weights, summed)
        if axes is None:
            continue
        if len(graph.shape(product)) != RANK:
            return f"the products have {len(graph.shape(product))} dimensions, not {RANK}"
        if len({graph.dtype(n) for n in (values, weights, product, node)}) > 1:
            return "weights, vectors and sum are not of one dtype"
        if only_user(product) is None:
            return f"the products have other users than the sum ({len(product.users)})"
        order = (axes.batch, axes.features, axes.summed)
        kept = summed if arguments["keepdim"] else None
        flipped = axes.features < axes.batch
        return _Sum(node, skip_noops(graph, values), axes, weights, order, flipped, kept, multiplied=True)
    return None


def _unexpanded(graph: Graph, node: fx.Node) -> fx.Node:
    """Weights that were expanded to the vectors' width, before that."""
    if not graph.is_op(node, aten.expand, aten.expand_as):
        return node
    inner: fx.Node = node.args[0]  # type: ignore[assignment]
    return inner if len(graph.shape(inner)) == len(graph.shape(node)) else node


def _axes(graph: Graph, product: fx.Node, values: fx.Node, weights: fx.Node, summed: int) -> _Axes | None:
    """None unless `values` fills the product and `weights` all of it but one axis, which is not the summed one."""
    whole, scales = graph.shape(product), graph.shape(weights)
    if not graph.same_shape(graph.shape(values), whole) or len(scales) != len(whole):
        return None
    narrow = [i for i, (a, b) in enumerate(zip(scales, whole, strict=True)) if one(a) and not one(b)]
    wide = [i for i, (a, b) in enumerate(zip(scales, whole, strict=True)) if same_size(a, b)]
    if len(narrow) != 1 or len(wide) != len(whole) - 1 or summed == narrow[0]:
        return None
    batch = next((i for i in range(len(whole)) if i not in (summed, narrow[0])), 0)
    return _Axes(batch, summed, narrow[0])


def _product(graph: Graph, node: fx.Node) -> _Sum | None:
    """`bmm(w, v)` with w of one row, or einsum("bn,bnd->bd", w, v), in any order of operands and letters."""
    product = read_product(graph, node)
    if product is None or not graph.dtype(node).is_floating_point:
        return None
    for at in (0, 1):
        weights, values = product.operands[at], product.operands[1 - at]
        rows, vectors, out = product.letters[at], product.letters[1 - at], product.out
        summed = [c for c in rows if c in vectors and c not in out]
        batch = [c for c in rows if c in vectors and c in out]
        features = [c for c in vectors if c not in rows and c in out]
        row = [c for c in rows if c not in vectors and c in out]
        counts = (len(vectors), len(summed), len(batch), len(features))
        if counts != (RANK, 1, 1, 1) or len(rows) != 2 + len(row) or set(out) != {*batch, *features, *row}:
            continue
        if row and not one(graph.shape(weights)[rows.index(row[0])]):
            continue
        axes = _Axes(*[vectors.index(c) for c in (*batch, *summed, *features)])
        order = tuple(rows.index(c) for c in (*batch, *row, *summed))
        flipped = out.index(features[0]) < out.index(batch[0])
        kept = out.index(row[0]) if row else None
        return _Sum(node, skip_noops(graph, values), axes, weights, order, flipped, kept, multiplied=False)
    return None


def _before_first(graph: Graph, group: list[_Sum], report: Report) -> list[_Sum]:
    """Those whose weights can stand before the first sum."""
    nodes = {member.node for member in group}
    first = min(nodes)
    members = []
    for member in group:
        if graph.hoist(member.weights, first, never=nodes):
            members.append(member)
        else:
            report.refused(member.node, "its weights are computed from an earlier weighted sum")
    return members


class _Batch:
    """Builds one product before the first sum and hands its rows out."""

    def __init__(self, graph: Graph, members: list[_Sum]) -> None:
        self.graph, self.members = graph, members
        self.before = min(member.node for member in members)

    def run(self, report: Report) -> None:
        rows = [self._row(member) for member in self.members]
        weights = rows[0] if len(rows) == 1 else self._call(aten.cat.default, rows, 1)
        axes = self.members[0].axes
        values = self._in_order(self.members[0].values, (axes.batch, axes.summed, axes.features))
        product = self._call(aten.bmm.default, weights, values)
        for index, member in enumerate(self.members):
            what = f"row {index + 1} of {len(self.members)} of one product over {member.values.name}"
            report.applied(member.node, what)
            part = self._call(aten.select.int, product, 1, index)
            if member.flipped:
                part = self._call(aten.transpose.int, part, 0, 1)
            if member.kept is not None:
                part = self._call(aten.unsqueeze.default, part, member.kept)
            if handed_back(self.graph, member.node):
                part = own_memory(self.graph, part, before=self.before, like=member.node)
            self.graph.replace(member.node, part)

    def _row(self, member: _Sum) -> fx.Node:
        """[batch, 1, N]"""
        row = self._in_order(member.weights, member.order)
        return row if len(member.order) == RANK else self._call(aten.unsqueeze.default, row, 1)

    def _in_order(self, node: fx.Node, order: tuple[int, ...]) -> fx.Node:
        return node if order == tuple(range(len(order))) else self._call(aten.permute.default, node, order)

    def _call(self, op: torch._ops.OpOverload, *args: object) -> fx.Node:
        return self.graph.call(op, *args, before=self.before, like=self.members[0].node)
