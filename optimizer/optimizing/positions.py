"""Which operations work position by position along a dimension, and how each looks when only one position is wanted.

`at_one_position(graph, node, dim)` answers with the operation's arguments, those that are wanted at that position only
marked `Sliced`, all others as they are. An operation that mixes positions gives a `Mixes` with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from optimizer.optimizing.graph import Graph, Shape, same_size
from optimizer.optimizing.matching import one

aten = torch.ops.aten


@dataclass(frozen=True)
class Sliced:
    """This input, at the wanted position of its dimension `dim` (which stays, with size 1)."""

    node: fx.Node
    dim: int


@dataclass(frozen=True)
class Rebuilt:
    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True)
class Mixes:
    reason: str


Answer = Rebuilt | Mixes
Rule = Callable[[Graph, fx.Node, int, bool], Answer]
RULES: dict[Any, Rule] = {}
# Multiply-adds worth saving: without one of these among them, a pushdown saves nothing.
HEAVY = (
    aten.linear,
    aten.matmul,
    aten.bmm,
    aten.addmm,
    aten.mm,
    aten.scaled_dot_product_attention,
)


def at_one_position(graph: Graph, node: fx.Node, dim: int, last: bool) -> Answer:
    """`dim` counts from the front; `last` says that the wanted position is the last one."""
    if node in graph.tainted:
        return Mixes("its memory is written in place")
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return Mixes("it is no operation")
    rule = RULES.get(node.target) or RULES.get(node.target.overloadpacket)
    tags = node.target.tags
    if rule is None and torch.Tag.pointwise in tags and torch.Tag.nondeterministic_seeded not in tags:
        rule = _pointwise
    if rule is None:
        return Mixes(f"{node.target} is not known to work position by position")
    return rule(graph, node, dim, last)


def _rule(*ops: Any) -> Callable[[Rule], Rule]:
    def add(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops, rule))
        return rule

    return add


def _with(node: fx.Node, first: Any, *rest: Any) -> Rebuilt:
    """The same call with its first arguments replaced."""
    given = (first, *rest)
    return Rebuilt(node.target, (*given, *node.args[len(given) :]), dict(node.kwargs))


def _operand(graph: Graph, value: Any, dim_from_end: int) -> Any:
    """An operand that broadcasts: sliced when it has that dimension, as it is when it has not or has size 1 there."""
    if not graph.is_tensor(value):
        return value
    shape = graph.shape(value)
    dim = len(shape) - dim_from_end
    return value if dim < 0 or one(shape[dim]) else Sliced(value, dim)


@_rule(
    aten.to.dtype,
    aten.to.dtype_layout,
    aten._to_copy.default,
    aten.contiguous.default,
    aten.detach.default,
    aten.alias.default,
    aten.masked_fill.Tensor,
    aten.multiply,
    aten.divide,
    aten.hardswish.default,
    aten.log_sigmoid.default,
    aten.type_as.default,
)
def _pointwise(graph: Graph, node: fx.Node, dim: int, last: bool) -> Answer:
    from_end = len(graph.shape(node)) - dim
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: _operand(graph, n, from_end))
    return Rebuilt(node.target, args, kwargs)


@_rule(aten.dropout.default)
def _dropout(graph: Graph, node: fx.Node, dim: int, last: bool) -> Answer:
    arguments = graph.arguments(node)
    if arguments["train"] and arguments["p"] != 0:
        return Mixes("dropout is active")
    return _pointwise(graph, node, dim, last)


@_rule(aten.linear.default)
def _linear(graph: Graph, node: fx.Node, dim: int, last: bool) -> Answer:
    if dim == len(graph.shape(node)) - 1:
        return Mixes("the position is among a linear layer's outputs")
    return _with(node, Sliced(node.args[0], dim))  # type: ignore[arg-type]


@_rule(aten.matmul.default, aten.bmm.default, aten.mm.default)
def _matmul(graph: Graph, node: fx.Node, dim: int, last: bool) -> Answer:
    a, b = node.args[:2]
    rank, rank_a, rank_b = len(graph.shape(node)), len(graph.shape(a)), len(graph.shape(b))  # type: ignore[arg-type]
    if min(rank_a, rank_b) < 2:
        return Mixes("a product with a vector")
    if dim == rank - 2:
        return _with(node, Sliced(a, rank_a - 2), b)  # type: ignore[arg-type]
    if dim == rank - 1:
        return _with(node, a, Sliced(b, rank_b - 1))  # type: ignore[arg-type]
    return _with(node, _operand(graph, a, rank - dim), _operand(graph, b, rank - dim))


@_rule(aten.addmm.default)
def _addmm(graph: Graph, node: fx.Node, dim: int, last: bool) -> Answer:
    if dim != 0:
        return Mixes("the position is among a linear layer's outputs")
    return _with(node, _operand(graph, node.args[0], 2), Sliced(node.args[1], 0))  # type: ignore[arg-type]


@_rule(aten.scaled_dot_product_attention.default)
def _attention(graph: Graph, node: fx.Node, dim: int, last: bool) -> Answer:
    arguments = graph.arguments(node)
    query, key, mask = arguments["query"], arguments["key"], arguments["attn_mask"]
    rank = len(graph.shape(node))
    if dim != rank - 2:
        return Mixes("the position is not among attention's queries")
    if arguments["dropout_p"] != 0:
        return Mixes("attention's dropout is active")
    # the last query sees every key, so no mask is left; is_causal with one query would hide all keys but the first
    sees_all = last and same_size(graph.shape(query)[-2], graph.shape(key)[-2])
    if arguments["is_causal"] and not sees_all:
        return Mixes("attention is causal and the position is not the last one")
    if mask is not None:
        mask = _operand(graph, mask, 2)
    kwargs = {"scale": arguments["scale"], "enable_gqa": arguments["enable_gqa"]}
    args = (Sliced(query, len(graph.shape(query)) - 2), key, arguments["value"], mask, 0.0, False)
    return Rebuilt(node.target, args, kwargs)


@_rule(aten.layer_norm.default, aten.rms_norm.default)
def _norm(graph: Graph, node: fx.Node, dim: int, last: bool) -> Answer:
    if dim >= len(graph.shape(node)) - len(node.args[1]):  # type: ignore[arg-type]
        return Mixes("the norm runs over the positions")
    return _with(node, Sliced(node.args[0], dim))  # type: ignore[arg-type]


def _add_norm(graph: Graph, node: fx.Node, dim: int, last: bool) -> Answer:
    x, residual = node.args[:2]
    if dim == len(graph.shape(x)) - 1:  # type: ignore[arg-type]
        return Mixes("the norm runs over the positions")
    return _with(node, Sliced(x, dim), Sliced(residual, dim))  # type: ignore[arg-type]


def register_fused_operations() -> None:
    """The library's operations exist only once it is loaded."""
    import kernels

    kernels.load()
    for name in ("add_rms_norm", "add_layer_norm"):
        RULES[getattr(torch.ops.fuseworks, name).default] = _add_norm


@_rule(aten.softmax.int, aten._softmax.default, aten.log_softmax.int, aten._log_softmax.default)
def _softmax(graph: Graph, node: fx.Node, dim: int, last: bool) -> Answer:
    if graph.arguments(node)["dim"] % len(graph.shape(node)) == dim:
        return Mixes("the softmax runs over the positions")
    return _with(node, Sliced(node.args[0], dim))  # type: ignore[arg-type]


@_rule(aten.mean.dim, aten.sum.dim_IntList, aten.amax.default, aten.amin.default, aten.var.correction, aten.var.dim)
def _reduction(graph: Graph, node: fx.Node, dim: int, last: bool) -> Answer:
    arguments = graph.arguments(node)
    rank = len(graph.shape(arguments["self"]))
    reduced = {d % rank for d in (arguments["dim"] or range(rank))}
    kept = list(range(rank)) if arguments["keepdim"] else [d for d in range(rank) if d not in reduced]
    if kept[dim] in reduced:
        return Mixes("the reduction runs over the positions")
    return _with(node, Sliced(arguments["self"], kept[dim]))


@_rule(aten.cat.default)
def _cat(graph: Graph, node: fx.Node, dim: int, last: bool) -> Answer:
    if graph.arguments(node)["dim"] % len(graph.shape(node)) == dim:
        return Mixes("the concatenation runs along the positions")
    return _with(node, [Sliced(n, dim) for n in node.args[0]])  # type: ignore[union-attr, arg-type]


@_rule(aten.stack.default)
def _stack(graph: Graph, node: fx.Node, dim: int, last: bool) -> Answer:
    axis = graph.arguments(node)["dim"] % len(graph.shape(node))
    if axis == dim:
        return Mixes("the stack runs along the positions")
    inner = dim - (axis < dim)
    return _with(node, [Sliced(n, inner) for n in node.args[0]])  # type: ignore[union-attr, arg-type]


@_rule(
    aten.slice.Tensor, aten.index_select.default, aten.split_with_sizes.default, aten.split.Tensor, aten.chunk.default
)
def _along(graph: Graph, node: fx.Node, dim: int, last: bool) -> Answer:
    source = node.args[0]
    if graph.arguments(node)["dim"] % len(graph.shape(source)) == dim:  # type: ignore[arg-type]
        return Mixes("the positions themselves are cut")
    return _with(node, Sliced(source, dim))  # type: ignore[arg-type]


@_rule(aten.select.int, aten.unbind.int)
def _select(graph: Graph, node: fx.Node, dim: int, last: bool) -> Answer:
    source = node.args[0]
    axis = graph.arguments(node)["dim"] % len(graph.shape(source))  # type: ignore[arg-type]
    return _with(node, Sliced(source, dim + (axis <= dim)))  # type: ignore[arg-type]


@_rule(aten.embedding.default)
def _embedding(graph: Graph, node: fx.Node, dim: int, last: bool) -> Answer:
    weight, ids = node.args[:2]
    if dim == len(graph.shape(node)) - 1:
        return Mixes("the position is among the features")
    return _with(node, weight, Sliced(ids, dim))  # type: ignore[arg-type]


# ---- shapes --------------------------------------------------------------------------------------------------------


@_rule(aten.transpose.int)
def _transpose(graph: Graph, node: fx.Node, dim: int, last: bool) -> Answer:
    rank = len(graph.shape(node))
    a, b = (int(d) % rank for d in node.args[1:3])  # type: ignore[arg-type]
    return _with(node, Sliced(node.args[0], {a: b, b: a}.get(dim, dim)))  # type: ignore[arg-type]


@_rule(aten.t.default)
def _t(graph: Graph, node: fx.Node, dim: int, last: bool) -> Answer:
    return _with(node, Sliced(node.args[0], len(graph.shape(node)) - 1 - dim))  # type: ignore[arg-type]


@_rule(aten.permute.default)
def _permute(graph: Graph, node: fx.Node, dim: int, last: bool) -> Answer:
    order = list(node.args[1])  # type: ignore[arg-type]
    return _with(node, Sliced(node.args[0], order[dim] % len(order)))  # type: ignore[arg-type]


@_rule(aten.unsqueeze.default)
def _unsqueeze(graph: Graph, node: fx.Node, dim: int, last: bool) -> Answer:
    axis = int(node.args[1]) % len(graph.shape(node))  # type: ignore[arg-type]
    if axis == dim:
        return Mixes("there is one position only")
    return _with(node, Sliced(node.args[0], dim - (axis < dim)))  # type: ignore[arg-type]


@_rule(aten.squeeze.dim)
def _squeeze(graph: Graph, node: fx.Node, dim: int, last: bool) -> Answer:
    before = graph.shape(node.args[0])  # type: ignore[arg-type]
    axis = int(node.args[1]) % len(before)  # type: ignore[arg-type]
    removed = len(before) != len(graph.shape(node))
    return _with(node, Sliced(node.args[0], dim + (removed and axis <= dim)))  # type: ignore[arg-type]


@_rule(aten.expand.default)
def _expand(graph: Graph, node: fx.Node, dim: int, last: bool) -> Answer:
    source, sizes = node.args[0], list(node.args[1])  # type: ignore[arg-type]
    sizes[dim] = 1
    return _with(node, _operand(graph, source, len(sizes) - dim), sizes)


@_rule(aten.repeat.default)
def _repeat(graph: Graph, node: fx.Node, dim: int, last: bool) -> Answer:
    source, times = node.args[:2]
    if len(graph.shape(source)) != len(times) or times[dim] != 1:  # type: ignore[arg-type, index]
        return Mixes("the positions are repeated")
    return _with(node, Sliced(source, dim))  # type: ignore[arg-type]


@_rule(aten.repeat_interleave.self_int)
def _repeat_interleave(graph: Graph, node: fx.Node, dim: int, last: bool) -> Answer:
    axis = graph.arguments(node)["dim"]
    if axis is None or axis % len(graph.shape(node)) == dim:
        return Mixes("the positions are repeated")
    return _with(node, Sliced(node.args[0], dim))  # type: ignore[arg-type]


@_rule(aten.view.default, aten.reshape.default)
def _reshape(graph: Graph, node: fx.Node, dim: int, last: bool) -> Answer:
    source, sizes = node.args[0], list(node.args[1])  # type: ignore[arg-type]
    inner = _same_dim(graph.shape(source), graph.shape(node), dim)  # type: ignore[arg-type]
    if inner is None:
        return Mixes("the positions are folded into another dimension")
    sizes[dim] = 1
    return Rebuilt(aten.reshape.default, (Sliced(source, inner), sizes), {})  # type: ignore[arg-type]


@_rule(aten.flatten.using_ints, aten.unflatten.int)
def _folding(graph: Graph, node: fx.Node, dim: int, last: bool) -> Answer:
    inner = _same_dim(graph.shape(node.args[0]), graph.shape(node), dim)  # type: ignore[arg-type]
    if inner is None:
        return Mixes("the positions are folded into another dimension")
    return _with(node, Sliced(node.args[0], inner))  # type: ignore[arg-type]


def _same_dim(before: Shape, after: Shape, dim: int) -> int | None:
    """The dimension of `before` that a reshape leaves alone and calls `dim`."""
    for inner, size in enumerate(before):
        if same_size(size, after[dim]) and same_size(math.prod(before[:inner]), math.prod(after[:dim])):
            return inner
    return None
