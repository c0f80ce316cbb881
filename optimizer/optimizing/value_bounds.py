"""Bounds of what a node may hold: whether an additive mask can be -inf, for one.

An interval over all elements, for every input: (-inf, inf) where nothing is known. Not a value analysis of the whole
graph: it walks up over masks, constants, gathers from constant tables and simple arithmetic only.
"""

from __future__ import annotations

import math

import torch
from torch import fx

from optimizer.optimizing.graph import Graph
from optimizer.optimizing.matching import scalar, skip_noops

aten = torch.ops.aten
Bounds = tuple[float, float]
UNKNOWN: Bounds = (-math.inf, math.inf)
_DEEPEST = 24
_SAME_VALUES = (
    aten.unsqueeze.default,
    aten.squeeze.dim,
    aten.expand.default,
    aten.view.default,
    aten.reshape.default,
    aten.permute.default,
    aten.transpose.int,
    aten.slice.Tensor,
    aten.select.int,
    aten.repeat.default,
    aten.flatten.using_ints,
    aten.index.Tensor,
    aten.index_select.default,
    aten.gather.default,
)


def bounds(graph: Graph, node: object, depth: int = 0) -> Bounds:
    """(lowest, highest) value that the node's elements can have, NaN aside."""
    number = scalar(graph, node)
    if number is not None:
        return (number, number) if not math.isnan(number) else UNKNOWN
    if not isinstance(node, fx.Node) or not graph.is_tensor(node) or depth > _DEEPEST:
        return UNKNOWN
    constant = graph.constant_value(node)
    if constant is not None:
        return _of_constant(constant)
    return _within(_of_call(graph, skip_noops(graph, node), depth + 1), graph.dtype(node))


def _of_constant(tensor: torch.Tensor) -> Bounds:
    if tensor.numel() == 0 or tensor.is_complex() or bool(tensor.isnan().any()):
        return UNKNOWN
    return float(tensor.min()), float(tensor.max())


def _within(found: Bounds, dtype: torch.dtype) -> Bounds:
    """What the dtype can hold: a float beyond its range becomes infinite, a whole number cannot be beyond it."""
    low, high = found
    if dtype == torch.bool:
        return max(low, 0.0), min(high, 1.0)
    if dtype.is_floating_point:
        limit = torch.finfo(dtype)
        return (low if low >= limit.min else -math.inf), (high if high <= limit.max else math.inf)
    if dtype.is_complex:
        return UNKNOWN
    return max(low, float(torch.iinfo(dtype).min)), min(high, float(torch.iinfo(dtype).max))


def _of_call(graph: Graph, node: fx.Node, depth: int) -> Bounds:
    def of(value: object) -> Bounds:
        return bounds(graph, value, depth)

    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload) or node in graph.tainted:
        return UNKNOWN
    if graph.is_op(node, aten.to, aten._to_copy, aten.type_as, *_SAME_VALUES):
        return of(node.args[0])
    given = graph.arguments(node)
    if graph.is_op(node, aten.embedding.default):
        return of(given["weight"])
    if graph.is_op(node, aten.where.self, aten.where.Scalar, aten.where.ScalarSelf, aten.where.ScalarOther):
        return _either(of(given["self"]), of(given["other"]))
    if graph.is_op(node, aten.masked_fill.Scalar, aten.masked_fill.Tensor):
        return _either(of(given["self"]), of(given["value"]))
    if graph.is_op(node, aten.cat.default):
        return _either(*[of(part) for part in given["tensors"]])
    if graph.is_op(node, aten.tril.default, aten.triu.default):
        return _either(of(given["self"]), (0.0, 0.0))
    if graph.is_op(node, aten.full.default):
        return of(given["fill_value"])
    if graph.is_op(node, aten.zeros, aten.zeros_like, aten.ones, aten.ones_like):
        value = 0.0 if graph.is_op(node, aten.zeros, aten.zeros_like) else 1.0
        return value, value
    if graph.is_op(node, aten.sigmoid.default, aten.softmax.int):
        return 0.0, 1.0
    if graph.is_op(node, aten.tanh.default):
        return -1.0, 1.0
    if graph.is_op(node, aten.neg.default):
        return _times(of(given["self"]), (-1.0, -1.0))
    if graph.is_op(node, aten.mul.Tensor):
        return _times(of(given["self"]), of(given["other"]))
    if graph.is_op(node, aten.add.Tensor, aten.sub.Tensor, aten.rsub.Scalar):
        return _sum(graph, node, of(given["self"]), of(given["other"]), scalar(graph, given["alpha"]))
    return UNKNOWN


def _sum(graph: Graph, node: fx.Node, a: Bounds, b: Bounds, alpha: float | None) -> Bounds:
    if alpha is None:
        return UNKNOWN
    if graph.is_op(node, aten.rsub.Scalar):
        a, b = b, a
    b = _times(b, (alpha, alpha) if graph.is_op(node, aten.add.Tensor) else (-alpha, -alpha))
    return _known(a[0] + b[0], a[1] + b[1])


def _either(*parts: Bounds) -> Bounds:
    return min(low for low, _ in parts), max(high for _, high in parts)


def _times(a: Bounds, b: Bounds) -> Bounds:
    products = [x * y for x in a for y in b]
    return UNKNOWN if any(math.isnan(p) for p in products) else _known(min(products), max(products))


def _known(low: float, high: float) -> Bounds:
    return UNKNOWN if math.isnan(low) or math.isnan(high) else (low, high)
