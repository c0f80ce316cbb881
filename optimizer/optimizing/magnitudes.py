"""How large the elements of a value can be, for every input; infinite where that is not known, or where NaN may be.

For rewrites that leave out what is multiplied by 0: right only where it is a number. From constant tables through
layers with constant weights, by their rows' absolute sums. Floats that are inputs are never known.
"""

from __future__ import annotations

import math

import torch
from torch import fx

from optimizer.optimizing.graph import Graph
from optimizer.optimizing.matching import ConstantLinear, constant_linear, scalar
from optimizer.optimizing.value_bounds import bounds

aten = torch.ops.aten
MARGIN = 0.5  # of the dtype's largest number: bounds are not rounded upwards
_DEEPEST = 200
# |f(x)| <= |x|, element by element or by moving elements
_NO_LARGER = (
    aten.relu.default, aten.gelu.default, aten.silu.default, aten.tanh.default, aten.neg.default, aten.abs.default,
    aten.to.dtype, aten._to_copy.default, aten.dropout.default, aten.view.default, aten.reshape.default,
    aten.flatten.using_ints, aten.unsqueeze.default, aten.squeeze.dim, aten.expand.default, aten.expand_as.default,
    aten.permute.default, aten.transpose.int, aten.slice.Tensor, aten.select.int, aten.contiguous.default,
    aten.clone.default, aten.repeat.default, aten.alias.default, aten.detach.default,
)  # fmt: skip
_AT_MOST_ONE = (aten.sigmoid.default, aten.softmax.int)


def largest(graph: Graph, node: object, known: dict[object, float] | None = None, depth: int = 0) -> float:
    """A bound of the absolute values; math.inf unless every step up to this node stays within its dtype."""
    known = {} if known is None else known
    number = scalar(graph, node)
    if number is not None:
        return abs(number) if math.isfinite(number) else math.inf
    if not isinstance(node, fx.Node) or not graph.is_tensor(node) or depth > _DEEPEST:
        return math.inf
    if node not in known:
        found = _of(graph, node, known, depth + 1)
        dtype = graph.dtype(node)
        limit = torch.finfo(dtype).max * MARGIN if dtype.is_floating_point else math.inf
        known[node] = found if found <= limit else math.inf
    return known[node]


def _of(graph: Graph, node: fx.Node, known: dict[object, float], depth: int) -> float:
    def of(value: object) -> float:
        return largest(graph, value, known, depth)

    constant = graph.constant_value(node)
    if constant is not None:
        return _of_constant(constant)
    if not graph.dtype(node).is_floating_point:
        return max(abs(end) for end in bounds(graph, node))
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload) or node in graph.tainted:
        return math.inf
    if graph.is_op(node, *_NO_LARGER):
        return _of_kept(graph, node, of(node.args[0]))
    linear = constant_linear(graph, node)
    if isinstance(linear, ConstantLinear):
        return _of_linear(linear, of(linear.input))
    given = graph.arguments(node)
    if graph.is_op(node, aten.embedding.default):
        return of(given["weight"])
    if graph.is_op(node, *_AT_MOST_ONE):
        return 1.0 if math.isfinite(of(given["self"])) else math.inf
    if graph.is_op(node, aten.cat.default, aten.stack.default):
        return max(of(part) for part in given["tensors"])
    if graph.is_op(node, aten.mul.Tensor):
        return of(given["self"]) * of(given["other"])
    if graph.is_op(node, aten.add.Tensor, aten.sub.Tensor):
        alpha = scalar(graph, given["alpha"])
        return math.inf if alpha is None else of(given["self"]) + abs(alpha) * of(given["other"])
    if graph.is_op(node, aten.layer_norm.default):
        return _of_layer_norm(given, of)
    return math.inf


def _of_kept(graph: Graph, node: fx.Node, found: float) -> float:
    """A whole number that becomes a float may be any; dropout that draws scales."""
    if graph.is_op(node, aten.dropout.default) and graph.arguments(node)["train"]:
        return math.inf
    return found


def _of_constant(tensor: torch.Tensor) -> float:
    if tensor.is_complex() or tensor.numel() == 0 or not bool(tensor.isfinite().all()):
        return math.inf
    return float(tensor.abs().max())


def _of_linear(linear: ConstantLinear, incoming: float) -> float:
    rows = float(linear.weight.double().abs().sum(1).max()) if linear.weight.numel() else 0.0
    bias = 0.0 if linear.bias is None else _of_constant(linear.bias)
    return rows * incoming + bias


def _of_layer_norm(given: dict[str, object], of: object) -> float:
    """A normalised element is at most the root of their number, as long as the squares of what comes in are numbers."""
    assert callable(of)
    incoming = of(given["input"])
    shape = given["normalized_shape"]
    assert isinstance(shape, list | tuple)
    if incoming * incoming > torch.finfo(torch.float32).max * MARGIN / math.prod(shape):
        return math.inf
    weight = 1.0 if given["weight"] is None else of(given["weight"])
    bias = 0.0 if given["bias"] is None else of(given["bias"])
    return math.sqrt(math.prod(shape)) * weight + bias
