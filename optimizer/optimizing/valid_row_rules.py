"""Which operations work row by row, and how each looks when only the valid rows are wanted.

`at_valid_rows(graph, node, frame, masked)` answers with the operation's arguments, those that are wanted at the valid
rows only marked `At`, all others as they are; or with the reason why the operation needs all rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from optimizer.optimizing.graph import Graph, same_size
from optimizer.optimizing.matching import one
from optimizer.optimizing.valid_rows import At, Count, Frame, Masked

aten = torch.ops.aten


@dataclass(frozen=True)
class Weight:
    """A constant to be made, as an argument of a call."""

    value: torch.Tensor
    name: str


@dataclass(frozen=True)
class Rebuilt:
    """A call whose arguments may be calls of this kind in turn. `target` None: what its operand is. `work`:
    multiply-adds of a row that the operation does."""

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    work: int = 0


Rule = Callable[[Graph, fx.Node, Frame, Masked], Rebuilt | str]
RULES: dict[Any, Rule] = {}


def at_valid_rows(graph: Graph, node: fx.Node, frame: Frame, masked: Masked) -> Rebuilt | str:
    if node in graph.tainted:
        return "its memory is written in place"
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return "it is no operation"
    rule = RULES.get(node.target) or RULES.get(node.target.overloadpacket)
    tags = node.target.tags
    if rule is None and torch.Tag.pointwise in tags and torch.Tag.nondeterministic_seeded not in tags:
        rule = _pointwise
    if rule is None:
        return f"{node.target} is not known to work row by row"
    return rule(graph, node, frame, masked)


def _rule(*ops: Any) -> Callable[[Rule], Rule]:
    def add(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops, rule))
        return rule

    return add


def _with(node: fx.Node, *given: Any, work: int = 0) -> Rebuilt:
    """The same call with its first arguments replaced."""
    return Rebuilt(node.target, (*given, *node.args[len(given) :]), dict(node.kwargs), work)


def _rank(graph: Graph, node: Any) -> int:
    return len(graph.shape(node))


def _first(node: fx.Node) -> fx.Node:
    assert isinstance(node.args[0], fx.Node)
    return node.args[0]


# ---- by element and along the features ------------------------------------------------------------------------------


@_rule(
    aten.to.dtype, aten._to_copy.default, aten.contiguous.default, aten.clone.default, aten.detach.default,
    aten.alias.default, aten.masked_fill.Scalar, aten.masked_fill.Tensor, aten.where.self, aten.where.ScalarOther,
    aten.where.ScalarSelf, aten.gelu.default, aten.silu.default, aten.type_as.default, aten.nan_to_num.default,
)  # fmt: skip
def _pointwise(graph: Graph, node: fx.Node, frame: Frame, masked: Masked) -> Rebuilt | str:
    """Broadcasting aligns dimensions from the right."""
    rank = _rank(graph, node)

    def operand(n: fx.Node) -> Any:
        if not graph.is_tensor(n):
            return n
        lead = rank - _rank(graph, n)
        return At(n, Frame(frame.axis - lead, frame.flat))

    args, kwargs = fx.node.map_arg((node.args, node.kwargs), operand)
    if "memory_format" in kwargs:
        return Rebuilt(node.target, args, {**kwargs, "memory_format": torch.contiguous_format})
    return Rebuilt(node.target, args, kwargs)


@_rule(aten.dropout.default)
def _dropout(graph: Graph, node: fx.Node, frame: Frame, masked: Masked) -> Rebuilt | str:
    arguments = graph.arguments(node)
    if arguments["train"] and arguments["p"] != 0:
        return "dropout is active"
    return _pointwise(graph, node, frame, masked)


@_rule(aten.prelu.default)
def _prelu(graph: Graph, node: fx.Node, frame: Frame, masked: Masked) -> Rebuilt | str:
    weight = node.args[1]
    if not isinstance(weight, fx.Node) or not one(math.prod(graph.shape(weight))):
        return "its weights lie along a dimension that moves"
    return _with(node, At(_first(node), frame))


@_rule(aten.layer_norm.default, aten.rms_norm.default)
def _norm(graph: Graph, node: fx.Node, frame: Frame, masked: Masked) -> Rebuilt | str:
    over = node.args[1]
    assert isinstance(over, list | tuple)
    if masked.dims(frame)[-1] >= _rank(graph, node) - len(over):
        return "the norm runs over the rows"
    return _with(node, At(_first(node), frame))


@_rule(aten.softmax.int, aten.log_softmax.int)
def _softmax(graph: Graph, node: fx.Node, frame: Frame, masked: Masked) -> Rebuilt | str:
    dim = graph.arguments(node)["dim"] % _rank(graph, node)
    if dim in masked.dims(frame):
        return "the softmax runs over the rows"
    return _with(node, At(_first(node), frame), masked.behind(frame, dim))


@_rule(aten.mean.dim, aten.sum.dim_IntList, aten.amax.default, aten.amin.default)
def _reduction(graph: Graph, node: fx.Node, frame: Frame, masked: Masked) -> Rebuilt | str:
    arguments = graph.arguments(node)
    rank = _rank(graph, arguments["self"])
    over = sorted({d % rank for d in arguments["dim"] or range(rank)})
    inner = frame
    if not arguments["keepdim"]:
        kept = [d for d in range(rank) if d not in over]
        places = [kept[d] for d in masked.dims(frame)]
        if places != list(range(places[0], places[0] + len(places))):
            return "the reduction runs between the mask's dimensions"
        inner = Frame(places[0], frame.flat)
    if any(d in masked.dims(inner) for d in over):
        return "the reduction runs over the rows"
    return _with(node, At(arguments["self"], inner), [masked.behind(inner, d) for d in over])


@_rule(aten.cat.default)
def _cat(graph: Graph, node: fx.Node, frame: Frame, masked: Masked) -> Rebuilt | str:
    dim = graph.arguments(node)["dim"] % _rank(graph, node)
    if dim in masked.dims(frame):
        return "the concatenation runs along the rows"
    parts = [At(n, frame) for n in node.args[0]]  # type: ignore[union-attr, arg-type]
    return Rebuilt(node.target, (parts, masked.behind(frame, dim)), {})


@_rule(aten.slice.Tensor)
def _slice(graph: Graph, node: fx.Node, frame: Frame, masked: Masked) -> Rebuilt | str:
    dim = graph.arguments(node)["dim"] % _rank(graph, node)
    if dim in masked.dims(frame):
        return "the rows themselves are cut"
    return _with(node, At(_first(node), frame), masked.behind(frame, dim))


@_rule(aten.select.int)
def _select(graph: Graph, node: fx.Node, frame: Frame, masked: Masked) -> Rebuilt | str:
    return _removed(graph, node, frame, masked, graph.arguments(node)["dim"])


@_rule(aten.squeeze.dim)
def _squeeze(graph: Graph, node: fx.Node, frame: Frame, masked: Masked) -> Rebuilt | str:
    if _rank(graph, node) == _rank(graph, _first(node)):
        return "it removes no dimension"
    return _removed(graph, node, frame, masked, graph.arguments(node)["dim"])


def _removed(graph: Graph, node: fx.Node, frame: Frame, masked: Masked, given: int) -> Rebuilt | str:
    dim = given % _rank(graph, _first(node))
    inner = Frame(frame.axis + (dim <= frame.axis), frame.flat)
    if dim in masked.dims(inner):
        return "it takes away a dimension between the mask's"
    return _with(node, At(_first(node), inner), masked.behind(inner, dim))


@_rule(aten.unsqueeze.default)
def _unsqueeze(graph: Graph, node: fx.Node, frame: Frame, masked: Masked) -> Rebuilt | str:
    dim = graph.arguments(node)["dim"] % _rank(graph, node)
    if dim in masked.dims(frame):
        return "it adds a dimension between the mask's"
    inner = Frame(frame.axis - (dim < frame.axis), frame.flat)
    return _with(node, At(_first(node), inner), masked.behind(frame, dim))


@_rule(aten.expand.default, aten.expand_as.default)
def _expand(graph: Graph, node: fx.Node, frame: Frame, masked: Masked) -> Rebuilt | str:
    """The rows of what was repeated; one row that was repeated for all is repeated for the valid ones."""
    source, rows = _first(node), masked.dims(frame)
    before, after = graph.shape(source), graph.shape(node)
    if len(before) != len(after) or not all(same_size(before[d], after[d]) for d in range(len(after)) if d not in rows):
        return "it repeats more than rows"
    if not all(one(before[d]) for d in rows):
        return Rebuilt(None, (At(source, frame),), {})
    sizes: list[Any] = [-1] * (len(after) - len(rows) + 1)
    sizes[frame.axis] = Count()
    return Rebuilt(aten.expand.default, (At(source, frame), sizes), {})


# ---- views of rows --------------------------------------------------------------------------------------------------


@_rule(aten.view.default, aten.reshape.default, aten.flatten.using_ints)
def _view(graph: Graph, node: fx.Node, frame: Frame, masked: Masked) -> Rebuilt | str:
    """Merges or parts the mask's dimensions, or reshapes what a row holds."""
    source = _first(node)
    before, after = graph.shape(source), graph.shape(node)
    ahead, behind = after[: frame.axis], after[masked.dims(frame)[-1] + 1 :]
    for inner in (Frame(frame.axis), Frame(frame.axis, flat=True)) if masked.count > 1 else (Frame(frame.axis),):
        if masked.dims(inner)[-1] >= len(before) or not masked.is_whole(graph, source, inner):
            continue
        rest = before[masked.dims(inner)[-1] + 1 :]
        if not graph.same_shape(before[: frame.axis], ahead):
            continue
        if graph.same_shape(rest, behind):
            return Rebuilt(None, (At(source, inner),), {})
        if frame.axis == 0 and all(isinstance(size, int) for size in behind):
            return Rebuilt(aten.reshape.default, (At(source, inner), [-1, *behind]), {})
    return "the rows are folded into another dimension"


# ---- products and lookups -------------------------------------------------------------------------------------------


def _work(*sizes: Any) -> int:
    return math.prod(sizes) if all(isinstance(size, int) for size in sizes) else 0


@_rule(aten.linear.default)
def _linear(graph: Graph, node: fx.Node, frame: Frame, masked: Masked) -> Rebuilt | str:
    if masked.dims(frame)[-1] == _rank(graph, node) - 1:
        return "the rows are a linear layer's outputs"
    work = _work(*graph.shape(node.args[1]))  # type: ignore[arg-type]
    return _with(node, At(_first(node), frame), work=work)


@_rule(aten.addmm.default)
def _addmm(graph: Graph, node: fx.Node, frame: Frame, masked: Masked) -> Rebuilt | str:
    bias, rows, weight = node.args[:3]
    assert isinstance(bias, fx.Node) and isinstance(rows, fx.Node) and isinstance(weight, fx.Node)
    if frame.axis != 0 or _rank(graph, bias) > 1:
        return "the rows are a linear layer's outputs"
    return _with(node, bias, At(rows, frame), work=_work(*graph.shape(weight)))


@_rule(aten.matmul.default, aten.mm.default, aten.bmm.default)
def _product(graph: Graph, node: fx.Node, frame: Frame, masked: Masked) -> Rebuilt | str:
    """Rows of the left operand by a matrix that is the same for all of them."""
    left, right = node.args[:2]
    assert isinstance(left, fx.Node) and isinstance(right, fx.Node)
    rank, by = _rank(graph, left), _rank(graph, right)
    if min(rank, by) < 2 or rank != _rank(graph, node):
        return "a product that is no layer over rows"
    if masked.dims(frame)[-1] != rank - 2:
        return "the rows are not those of the product's left operand"
    work = _work(*graph.shape(right)[-2:])
    alone = len(masked.dims(frame)) == 1
    if by == 2 and not alone:
        return Rebuilt(aten.matmul.default, (At(left, frame), right), {}, work)
    if alone:
        return Rebuilt(node.target, (At(left, frame), right), {}, work)
    return _own_matrix(graph, node, left, right, frame, work) or "its matrix is not the same for all rows"


def _own_matrix(graph: Graph, node: fx.Node, left: fx.Node, right: fx.Node, frame: Frame, work: int) -> Rebuilt | None:
    """`k (A + diag(q) P)` with a matrix of each sample's own, as `split_target_attention` leaves it: `[k, q*k]` by both
    constants, in twice the multiply-adds of a row."""
    if frame.axis != 0 or not graph.is_op(right, aten.addcmul.default, aten.mul.Tensor):
        return None
    given = graph.arguments(right)
    if graph.is_op(right, aten.addcmul):
        added, scale, by = given["self"], given["tensor1"], given["tensor2"]
        if given["value"] != 1:
            return None
    else:
        added, scale, by = None, given["self"], given["other"]
    constants = [graph.constant_value(n) for n in (added, by) if n is not None]
    if any(c is None or not graph.same_shape(c.shape, graph.shape(right)[1:]) for c in constants):
        return None
    if not graph.is_op(scale, aten.transpose.int) or set(scale.args[1:]) not in ({1, 2}, {-1, -2}):
        return None
    row = scale.args[0]
    shape = graph.shape(row)
    if len(shape) != 3 or not one(shape[1]) or not same_size(shape[0], graph.shape(right)[0]):
        return None
    keys = At(left, frame)
    parts: list[Any] = [Rebuilt(aten.mul.Tensor, (keys, At(row, frame)), {})]
    if added is not None:
        parts.insert(0, keys)
    joined = Rebuilt(aten.cat.default, (parts, -1), {}) if added is not None else parts[0]
    weight = Weight(torch.cat([c.t() for c in constants if c is not None], 1), f"{node.name}_rows_weight")
    return Rebuilt(aten.linear.default, (joined, weight), {}, work)


@_rule(aten.embedding.default)
def _embedding(graph: Graph, node: fx.Node, frame: Frame, masked: Masked) -> Rebuilt | str:
    weight, ids = node.args[:2]
    assert isinstance(ids, fx.Node)
    if masked.dims(frame)[-1] >= _rank(graph, ids):
        return "the rows are among the features"
    return _with(node, weight, At(ids, frame))
