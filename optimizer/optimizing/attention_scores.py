"""Scores of an attention, from the softmax up to the product of queries and keys: scales, masks, casts, views.

Reads only. A step that is none of these ends the walk: then it is no attention, or refused when a product of queries
and keys lies just above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import fx

from optimizer.optimizing.attention_products import (
    PRODUCTS,
    VIEWS,
    Operand,
    Refused,
    permutation,
    queries_and_keys,
    regroups,
    turns,
)
from optimizer.optimizing.graph import Graph
from optimizer.optimizing.matching import is_noop, one, only_user, scalar

aten = torch.ops.aten
CASTS = (aten.to.dtype, aten.to.dtype_layout, aten._to_copy.default, aten.type_as.default)
DROPOUTS = (aten.dropout.default,)
LARGEST_FILL = -1e4
"""A masked score is set to this or less; a larger fill is no mask."""


@dataclass(frozen=True)
class Mask:
    """One step between scaled scores and softmax. `fill` sets `value` where `where` is `when`; `add` adds `where`.

    It is put on at the node `at`, whose columns are the queries when `flipped`; what comes of it is multiplied by
    `factor` before the softmax.
    """

    kind: Literal["add", "subtract", "fill"]
    where: fx.Node
    at: fx.Node
    value: float = 0.0
    when: bool = True
    flipped: bool = False
    factor: float = 1.0


@dataclass(frozen=True)
class RowScale:
    """A tensor that the scores are multiplied with (`divides`: divided by); it is the same for all keys."""

    factor: fx.Node
    divides: bool


@dataclass
class Scores:
    query: Operand
    key: Operand
    scale: float
    masks: list[Mask]
    """From the inside out."""
    between: list[fx.Node]
    row_scales: list[RowScale]
    scaled: list[tuple[fx.Node, fx.Node]]


@dataclass
class _Step:
    """One operation: the scores that it takes, and what it does to them."""

    inner: fx.Node
    factor: float = 1.0
    mask: Mask | None = None
    rows: RowScale | None = None
    turns: bool = False
    regroups: bool = False


def read_scores(graph: Graph, softmax: fx.Node, *, flipped: bool) -> Scores | Refused | None:
    node = softmax.args[0]
    masks: list[Mask] = []
    between: list[fx.Node] = []
    rows: list[RowScale] = []
    scale, moved = 1.0, False
    while isinstance(node, fx.Node) and not graph.is_op(node, *PRODUCTS):
        between.append(node)
        step = _step(graph, node, flipped)
        if step is None and _product_above(graph, node):
            return Refused(f"{node.target} stands between the scores and the softmax", node)
        if step is None or isinstance(step, Refused):
            return step
        if step.mask is not None:
            if rows:
                return Refused("the scores are multiplied by a tensor after the mask was put on", node)
            mask = replace(step.mask, factor=scale)
            if mask.kind == "fill" and mask.value * scale > LARGEST_FILL:
                return Refused(f"masked scores come to {mask.value * scale:g}, which does not hide them", node)
            masks.append(mask)
        if step.rows is not None:
            rows.append(step.rows)
        moved = moved or step.turns or step.regroups
        if rows and moved:
            return Refused("the scores are multiplied by a tensor in another layout than the softmax's", node)
        flipped ^= step.turns
        scale *= step.factor
        node = step.inner
    if not isinstance(node, fx.Node):
        return None
    between.append(node)
    operands = queries_and_keys(graph, node, flipped=flipped)
    if operands is None:
        return None
    found = Scores(*operands, scale=scale, masks=masks[::-1], between=between, row_scales=rows, scaled=[])
    found.query = _unscaled(graph, found.query, node, found)
    found.key = _unscaled(graph, found.key, node, found)
    return found


def _product_above(graph: Graph, node: fx.Node) -> bool:
    """Whether a product of queries and keys lies a few operations above: then this was meant as attention."""
    level = [node]
    for _ in range(5):
        level = [source for n in level for source in n.all_input_nodes]
        if any(graph.is_op(n, *PRODUCTS) and queries_and_keys(graph, n, flipped=False) for n in level):
            return True
    return False


def _step(graph: Graph, node: fx.Node, flipped: bool) -> _Step | Refused | None:
    inner = node.args[0] if node.args else None
    if graph.is_op(node, *CASTS) or (isinstance(inner, fx.Node) and is_noop(graph, node)):
        return _Step(inner) if isinstance(inner, fx.Node) else None
    if isinstance(inner, fx.Node) and regroups(graph, node):
        return _Step(inner, regroups=True)
    if isinstance(inner, fx.Node) and turns(graph, node):
        return _Step(inner, turns=True)
    if graph.is_op(node, aten.mul.Tensor, aten.div.Tensor) and len(node.args) == 2 and not node.kwargs:
        return _scaled(graph, node, flipped)
    if graph.is_op(node, aten.add.Tensor, aten.sub.Tensor) and node.kwargs.get("alpha", 1) == 1:
        return _added(graph, node, flipped)
    if graph.is_op(node, aten.masked_fill.Scalar, aten.masked_fill.Tensor):
        given = graph.arguments(node)
        return _filled(graph, node, given["self"], given["mask"], given["value"], when=True, flipped=flipped)
    if graph.is_op(node, aten.where.self, aten.where.ScalarOther, aten.where.ScalarSelf):
        given = graph.arguments(node)
        scores, value, when = given["self"], given["other"], False
        if not _leads_to_product(graph, scores):
            scores, value, when = value, scores, True
        return _filled(graph, node, scores, given["condition"], value, when=when, flipped=flipped)
    return None


def constant_factor(graph: Graph, node: fx.Node) -> tuple[fx.Node, float] | None:
    """(the tensor, what a `mul` or `div` by a constant number multiplies it with)."""
    if not graph.is_op(node, aten.mul.Tensor, aten.div.Tensor) or len(node.args) != 2 or node.kwargs:
        return None
    a, b = node.args
    factor = scalar(graph, b)
    if factor is None and graph.is_op(node, aten.mul.Tensor):
        a, factor = b, scalar(graph, a)
    divides = graph.is_op(node, aten.div.Tensor)
    if not factor or not math.isfinite(factor) or not isinstance(a, fx.Node):
        return None
    return a, 1.0 / factor if divides else factor


def _scaled(graph: Graph, node: fx.Node, flipped: bool) -> _Step | Refused | None:
    number = constant_factor(graph, node)
    if number is not None:
        return _Step(number[0], factor=number[1])
    scores, other = node.args[:2]
    divides = graph.is_op(node, aten.div.Tensor)
    if not _leads_to_product(graph, scores):
        scores, other = other, scores
        if divides or not _leads_to_product(graph, scores):
            return None
    if not (isinstance(scores, fx.Node) and graph.is_tensor(other)):
        return None
    assert isinstance(other, fx.Node)
    shape = graph.shape(other)
    if flipped:
        return Refused("the scores are multiplied by a tensor in another layout than the softmax's", node)
    if (shape and not one(shape[-1])) or not graph.same_shape(graph.shape(scores), graph.shape(node)):
        return Refused("the scores are multiplied by a tensor that differs along the keys", node)
    if graph.dtype(other) != graph.dtype(node):
        return Refused("the scores are multiplied by a tensor of another dtype", node)
    return _Step(scores, rows=RowScale(other, divides))


def _added(graph: Graph, node: fx.Node, flipped: bool) -> _Step | Refused | None:
    a, b = node.args[:2]
    if not (isinstance(a, fx.Node) and isinstance(b, fx.Node)):
        return None
    subtracts = graph.is_op(node, aten.sub.Tensor)
    if _leads_to_product(graph, a):
        scores, mask = a, Mask("subtract" if subtracts else "add", b, node, flipped=flipped)
    elif not subtracts and _leads_to_product(graph, b):
        scores, mask = b, Mask("add", a, node, flipped=flipped)
    else:
        return None
    if not graph.is_tensor(mask.where) or not graph.same_shape(graph.shape(scores), graph.shape(node)):
        return Refused("the mask makes the scores larger", node)
    return _Step(scores, mask=mask)


def _filled(
    graph: Graph, node: fx.Node, scores: object, where: object, value: object, *, when: bool, flipped: bool
) -> _Step | Refused | None:
    number = scalar(graph, value)
    if not (isinstance(scores, fx.Node) and isinstance(where, fx.Node)) or not _leads_to_product(graph, scores):
        return None
    if number is None:
        return Refused("masked scores are set to something that is no constant number", node)
    if number > LARGEST_FILL:
        return Refused(f"masked scores are set to {number:g}, which does not hide them", node)
    if not graph.same_shape(graph.shape(scores), graph.shape(node)):
        return Refused("the mask makes the scores larger", node)
    return _Step(scores, mask=Mask("fill", where, node, number, when, flipped))


def _leads_to_product(graph: Graph, node: object) -> bool:
    """Whether scores are reached from here by steps alone."""
    while isinstance(node, fx.Node):
        if graph.is_op(node, *PRODUCTS):
            return queries_and_keys(graph, node, flipped=False) is not None
        step = _step(graph, node, flipped=False)
        if isinstance(step, Refused):
            return True
        if step is None:
            return False
        node = step.inner
    return False


def _unscaled(graph: Graph, operand: Operand, product: fx.Node, found: Scores) -> Operand:
    """Takes constant factors off an operand, also from behind its views, when only this product sees them."""
    node, user = operand.node, product
    while only_user(node) is user:
        factor = constant_factor(graph, node)
        if factor is not None:
            inner, number = factor
            if graph.dtype(inner) != graph.dtype(node) or not graph.same_shape(graph.shape(inner), graph.shape(node)):
                break
            found.scale *= number
            if node is operand.node:
                return Operand(inner, operand.order)
            found.scaled.append((node, inner))
            break
        views = permutation(graph, node) is not None or graph.is_op(node, *VIEWS) or is_noop(graph, node)
        if not views or not isinstance(node.args[0], fx.Node):
            break
        node, user = node.args[0], node
    return operand


def truth(graph: Graph, node: fx.Node, when: bool) -> tuple[fx.Node, bool]:
    """(a condition, when it is meant) without the negations written around it."""
    while True:
        if (
            graph.is_op(node, aten.logical_not.default)
            or (graph.is_op(node, aten.bitwise_not.default) and graph.dtype(node) == torch.bool)
            or (graph.is_op(node, aten.eq.Scalar) and node.args[1] == 0)
        ):
            when = not when
        elif not (graph.is_op(node, aten.ne.Scalar) and node.args[1] == 0):
            return node, when
        node = node.args[0]  # type: ignore[assignment]
