"""Pointwise attention (HSTU's `silu(q k^T + bias) / n`) leaves out the scores that a constant mask always hides.

`f(q k^T) * mask` times v, in blocks of rows: a block multiplies only the keys from the first to the last that its rows
of the mask show. Under a causal mask four blocks do 5/8 of both products and of everything between, eight 9/16; under a
window less. Not for a softmax (`fuse_attention`). Refuses masks that are not constant (a length that varies, a mask of
the data), scores or weights that are needed elsewhere, masks that hide too little, few rows. A hidden score that is
infinite made its row NaN; here it is not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import fx

from optimizer.optimizing.attention_products import PRODUCTS, Operand, Refused, queries_and_keys, values
from optimizer.optimizing.base import Pass, PassOptions, Report, register_pass
from optimizer.optimizing.graph import Graph, same_size
from optimizer.optimizing.matching import is_noop, one, only_user, scalar

aten = torch.ops.aten
OF_ONE = (
    aten.silu.default,
    aten.relu.default,
    aten.gelu.default,
    aten.sigmoid.default,
    aten.tanh.default,
    aten.neg.default,
    aten.exp.default,
    aten.square.default,
    aten.leaky_relu.default,
    aten.elu.default,
    aten.softplus.default,
    aten.clamp.default,
    aten.pow.Tensor_Scalar,
    aten.to.dtype,
    aten._to_copy.default,
)
OF_TWO = (aten.mul.Tensor, aten.div.Tensor, aten.add.Tensor, aten.sub.Tensor)
FILLS = (aten.masked_fill.Scalar, aten.where.ScalarOther, aten.where.ScalarSelf, aten.where.self)


@dataclass
class _Hidden:
    """Where scores are hidden (bool, broadcastable to [..., rows, keys]), and what stands there."""

    where: torch.Tensor
    value: float


@dataclass
class _Found:
    query: Operand
    key: Operand
    value: Operand
    chain: list[fx.Node]
    """From the product of queries and keys to the weights."""
    output: fx.Node
    output_order: tuple[int, ...]
    hidden: torch.Tensor
    """Bool, [rows, keys]: hidden for every batch and head."""


@dataclass(frozen=True)
class _Block:
    rows: tuple[int, int]
    keys: tuple[int, int]

    @property
    def area(self) -> int:
        return (self.rows[1] - self.rows[0]) * (self.keys[1] - self.keys[0])


@register_pass
class SkipMaskedScores(Pass):
    name = "skip_masked_scores"
    title = "Skip what a constant mask hides"
    summary = "Pointwise attention under a constant mask computes blocks of rows against the keys that they may see."
    numerics: ClassVar[Literal["exact", "reassociates"]] = "exact"
    order = 65

    class Options(PassOptions):
        blocks: int = Field(default=4, ge=2, le=32, description="blocks of rows, at most")
        min_rows: int = Field(default=32, ge=1, description="rows of a block, at least")
        max_share: float = Field(default=0.8, gt=0, lt=1, description="share of the scores that is left, at most")

    def apply(self, graph: Graph, options: Options, report: Report) -> None:
        for product in graph.operations(*PRODUCTS):
            found = _find(graph, product)
            if isinstance(found, Refused):
                report.refused(found.node, found.reason)
            elif found is not None:
                _split(graph, found, options, report)


def _find(graph: Graph, product: fx.Node) -> _Found | Refused | None:
    """From the product of queries and keys down over pointwise operations to the product with the values."""
    operands = queries_and_keys(graph, product, flipped=False)
    if operands is None:
        return None
    chain, hidden, reason = [product], None, None
    masked, bent = False, False
    while True:
        node = chain[-1]
        following = only_user(node)
        if following is None:
            shared = bent and masked
            return Refused(f"{node.name} is needed elsewhere too ({len(node.users)} users)", node) if shared else None
        if graph.is_op(following, *PRODUCTS):
            break
        if not _pointwise(graph, following, node):
            return None
        bent = bent or graph.is_op(following, *OF_ONE[:5])
        hides = _hides(graph, following, node)
        masked = masked or hides is not None
        if isinstance(hides, _Hidden):
            both = hidden is not None and hidden.value == hides.value == 0
            hidden = _Hidden(hidden.where | hides.where, 0.0) if both and hidden is not None else hides
        else:
            reason = hides or reason
            hidden = _carried(graph, following, node, hidden)
        chain.append(following)
    if not (masked and bent):
        return None
    if hidden is None or hidden.value != 0:
        return Refused(reason or "what its mask hides does not become 0", chain[-1])
    return _with_values(graph, operands, chain, following, hidden.where)


def _with_values(
    graph: Graph, operands: tuple[Operand, Operand], chain: list[fx.Node], output: fx.Node, where: torch.Tensor
) -> _Found | Refused | None:
    query, key = operands
    read = values(graph, output, chain[-1], -1, flipped=False)
    if isinstance(read, Refused):
        return read
    value, order = read
    rows, keys = graph.shape(chain[0])[-2:]
    if not (isinstance(rows, int) and isinstance(keys, int)):
        return Refused("the number of queries or keys is not fixed", chain[0])
    leading = query.shape(graph)[:-2]
    if not all(graph.same_shape(o.shape(graph)[:-2], leading) for o in (key, value)):
        return Refused("keys or values have other leading dimensions than the queries", output)
    always = where.expand(*where.shape[:-2], rows, keys) if where.dim() > 1 else where.expand(rows, keys)
    return _Found(query, key, value, chain, output, order, always.reshape(-1, rows, keys).all(0))


# ---- what a step does to hidden scores -------------------------------------------------------------------------------


def _pointwise(graph: Graph, node: fx.Node, scores: fx.Node) -> bool:
    if not (graph.is_op(node, *OF_ONE, *OF_TWO, *FILLS) or is_noop(graph, node)):
        return False
    used = [n for n in node.all_input_nodes if n is scores]
    return bool(used) and graph.same_shape(graph.shape(node), graph.shape(scores))


def _hides(graph: Graph, node: fx.Node, scores: fx.Node) -> _Hidden | str | None:
    """What this step hides; why that is not known; None for a step that is no mask."""
    if graph.is_op(node, *FILLS):
        given = graph.arguments(node)
        if graph.is_op(node, aten.masked_fill.Scalar):
            where, value, when = given["mask"], given["value"], True
        else:
            where, when = given["condition"], given["other"] is scores
            value = given["self"] if when else given["other"]
        number, condition = scalar(graph, value), graph.constant_value(where)
        if condition is None or number is None:
            return "its mask is not constant"
        return _Hidden(condition if when else ~condition, number)
    if graph.is_op(node, aten.mul.Tensor):
        other = next((n for n in node.all_input_nodes if n is not scores), None)
        if other is None or scalar(graph, other) is not None:
            return None
        mask = graph.constant_value(other)
        return "its mask is not constant" if mask is None else _Hidden(mask == 0, 0.0)
    return None


def _carried(graph: Graph, node: fx.Node, scores: fx.Node, hidden: _Hidden | None) -> _Hidden | None:
    """What stands at hidden scores after this step; None when that depends on more than what stood there before."""
    if hidden is None or is_noop(graph, node):
        return hidden
    others = [n for n in node.all_input_nodes if n is not scores and scalar(graph, n) is None]
    if others:
        keeps_zero = graph.is_op(node, aten.mul.Tensor) or (
            graph.is_op(node, aten.div.Tensor, aten.masked_fill.Scalar) and node.args[0] is scores
        )
        zero_fill = not graph.is_op(node, aten.masked_fill.Scalar) or scalar(graph, node.args[2]) == 0
        return hidden if hidden.value == 0 and keeps_zero and zero_fill else None
    stood = torch.tensor(hidden.value, dtype=graph.dtype(scores))

    def real(n: fx.Node) -> Any:
        return stood if n is scores else graph.constant_value(n)

    args, kwargs = fx.node.map_arg((node.args, node.kwargs), real)
    return _Hidden(hidden.where, float(node.target(*args, **kwargs)))  # type: ignore[operator]


# ---- rewriting -------------------------------------------------------------------------------------------------------


def _split(graph: Graph, found: _Found, options: SkipMaskedScores.Options, report: Report) -> None:
    rows, keys = found.hidden.shape
    count = min(options.blocks, rows // options.min_rows)
    if count < 2:
        reason = f"{rows} rows are too few for two blocks of min_rows {options.min_rows}"
        report.refused(found.output, reason)
        return
    blocks = _blocks(found.hidden, count)
    share = sum(block.area for block in blocks) / (rows * keys)
    if share > options.max_share:
        report.refused(found.output, f"its mask leaves {share:.0%} of the scores, more than {options.max_share:.0%}")
        return
    before, like = found.output, found.output
    dense = [_dense(graph, o, before) for o in (found.query, found.key, found.value)]
    transposed = graph.call(aten.transpose.int, dense[1], -2, -1, before=before, like=like)
    straight = tuple(range(len(found.output_order)))
    parts = []
    for block in blocks:
        query = _cut(graph, dense[0], -2, block.rows, before)
        scores = graph.call(
            aten.matmul.default, query, _cut(graph, transposed, -1, block.keys, before), before=before, like=like
        )
        weights = _again(graph, found.chain, scores, block, before)
        value = _cut(graph, dense[2], -2, block.keys, before)
        part = graph.call(aten.matmul.default, weights, value, before=before, like=like)
        if found.output_order != straight:
            part = graph.call(aten.permute.default, part, list(found.output_order), before=before, like=like)
        parts.append(part)
    dim = found.output_order.index(len(straight) - 2)
    joined = graph.call(aten.cat.default, parts, dim, before=before, like=like)
    report.applied(found.output, f"{len(blocks)} blocks of rows compute {share:.0%} of the scores")
    graph.replace(found.output, joined)


def _blocks(hidden: torch.Tensor, count: int) -> list[_Block]:
    """Blocks of about equal height, each with the keys from the first to the last that any of its rows may see."""
    rows, _ = hidden.shape
    edges = [round(rows * i / count) for i in range(count + 1)]
    blocks = []
    for start, end in pairwise(edges):
        seen = (~hidden[start:end]).any(0).nonzero().flatten()
        keys = (int(seen[0]), int(seen[-1]) + 1) if len(seen) else (0, 1)
        blocks.append(_Block((start, end), keys))
    return blocks


def _dense(graph: Graph, operand: Operand, before: fx.Node) -> fx.Node:
    """(leading..., rows, columns), contiguous: else each block would copy its part anew."""
    node, order = operand.through_transposes(graph).node, operand.through_transposes(graph).order
    if order != tuple(range(len(order))):
        node = graph.call(aten.permute.default, node, list(order), before=before, like=node)
    return graph.call(aten.contiguous.default, node, before=before, like=node)


def _cut(graph: Graph, node: fx.Node, dim: int, span: tuple[int, int], before: fx.Node) -> fx.Node:
    return graph.call(aten.slice.Tensor, node, dim, *span, before=before, like=node)


def _again(graph: Graph, chain: list[fx.Node], scores: fx.Node, block: _Block, before: fx.Node) -> fx.Node:
    """The operations of the chain on a block of scores."""
    rows, keys = graph.shape(chain[0])[-2:]
    for old, node in pairwise(chain):

        def cut(n: fx.Node, old: fx.Node = old, new: fx.Node = scores) -> fx.Node:
            if n is old:
                return new
            shape = graph.shape(n) if graph.is_tensor(n) else ()
            if len(shape) >= 2 and not one(shape[-2]) and same_size(shape[-2], rows):
                n = _cut(graph, n, -2, block.rows, before)
            if len(shape) >= 1 and not one(shape[-1]) and same_size(shape[-1], keys):
                n = _cut(graph, n, -1, block.keys, before)
            return n

        if is_noop(graph, node):  # a view with the old sizes
            continue
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), cut)
        scores = graph.call(node.target, *args, before=before, like=node, **kwargs)  # type: ignore[arg-type]
    return scores
