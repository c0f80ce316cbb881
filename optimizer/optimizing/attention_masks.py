"""One additive mask of all masks of an attention, as the fused operation takes it; or the news that it is causal.

A softmax gives NaN for a row that is -inf throughout, the fused operation 0 under torch and NaN under OpenVINO: where
such a row is possible its mask becomes NaN, so that every engine gives what the softmax gave. A finite fill becomes the
lowest number, so that a row that is hidden entirely still gives the mean of the values.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import fx

from optimizer.optimizing.attention import Attention, Mask
from optimizer.optimizing.attention_scores import LARGEST_FILL, truth
from optimizer.optimizing.graph import Graph, Shape, same_size
from optimizer.optimizing.matching import one, skip_noops
from optimizer.optimizing.value_bounds import bounds

aten = torch.ops.aten
Built = dict[Any, fx.Node]


def misfit(graph: Graph, found: Attention) -> tuple[str, fx.Node] | None:
    """Why the masks cannot be handed over."""
    additive = constant_mask(graph, found)
    if additive is not None and bool((additive == -torch.inf).all(-1).any()):
        return "a row of its constant mask is -inf throughout, where a softmax gives NaN", found.below[0]
    if found.zeroed and any(m.kind != "fill" and _lowest(graph, m) == -math.inf for m in found.masks):
        return "weights are set to 0 behind the softmax, and an added mask may be -inf", found.below[0]
    dtype = graph.dtype(found.output)
    for mask in found.masks:
        wide = mask.kind != "fill" and graph.dtype(mask.where).is_floating_point and graph.dtype(mask.where) != dtype
        if wide and dtype == torch.float16 and _lowest(graph, mask) < torch.finfo(dtype).min:
            return f"its {graph.dtype(mask.where)} mask holds values that {dtype} cannot hold", mask.at
    for mask in found.masks:
        if any(_size(graph, found, size) is None for size in _sizes_to_name(graph, found, mask)):
            return "the mask's leading dimensions are grouped otherwise than the queries', by a computed size", mask.at
    return None


def _lowest(graph: Graph, mask: Mask) -> float:
    """What an added mask adds at least; -inf where that is not known."""
    factor = -mask.factor if mask.kind == "subtract" else mask.factor
    ends = [end * factor for end in bounds(graph, mask.where)]
    return -math.inf if any(math.isnan(end) for end in ends) else min(ends)


def needs_guard(graph: Graph, found: Attention) -> bool:
    """Whether a row may be -inf throughout."""
    added = sum(_lowest(graph, m) for m in found.masks if m.kind != "fill")
    filled = any(m.kind == "fill" and m.value == -torch.inf for m in found.masks)
    return filled or added < torch.finfo(graph.dtype(found.output)).min


def build(graph: Graph, found: Attention, known: Built) -> fx.Node:
    """From the inside out; built where its parts are first known, so that layers share it."""
    dtype = graph.dtype(found.output)
    target = found.leading
    key = (dtype, str(target), found.zeroed, tuple(_identity(graph, m) for m in found.masks))
    if key in known:
        return known[key]
    computed = any(not graph.same_shape(graph.shape(m.at)[:-2], target) for m in found.masks)
    combined: fx.Node | None = None
    for mask in found.masks:
        parts = [n for n in (mask.where, combined) if n is not None]
        before = found.output if computed else _after(graph, parts)
        where = _regrouped(graph, found, mask, before)
        if mask.kind == "fill":
            combined = _filled(graph, combined, where, mask, _fill(found, mask, dtype), before)
        else:
            combined = _added(graph, combined, where, mask, before)
    assert combined is not None
    before = found.output if computed else _after(graph, [combined])
    if graph.dtype(combined) != dtype:
        combined = graph.call(aten.to.dtype, combined, dtype, before=before, like=combined)
    if not found.zeroed and needs_guard(graph, found):
        highest = graph.call(aten.amax.default, combined, [-1], True, before=before, like=combined)
        hidden = graph.call(aten.eq.Scalar, highest, -torch.inf, before=before, like=combined)
        combined = graph.call(aten.where.ScalarSelf, hidden, torch.nan, combined, before=before, like=combined)
    if not computed:
        known[key] = combined
    return combined


def hidden_rows(graph: Graph, found: Attention, before: fx.Node) -> fx.Node:
    """Bool, [..., rows or 1, 1]: where the fill hides all keys."""
    (mask,) = (m for m in found.masks if m.kind == "fill")
    where = _regrouped(graph, found, mask, before)
    if graph.dtype(where) != torch.bool:
        where = graph.call(aten.to.dtype, where, torch.bool, before=before, like=where)
    if not mask.when:
        where = graph.call(aten.logical_not.default, where, before=before, like=where)
    return graph.call(aten.all.dim, where, -1, True, before=before, like=where)


def _identity(graph: Graph, mask: Mask) -> tuple[Any, ...]:
    frame = str(graph.shape(mask.at)[:-2])
    return mask.kind, mask.where, mask.value, mask.when, mask.flipped, mask.factor, frame


def _added(graph: Graph, combined: fx.Node | None, part: fx.Node, mask: Mask, before: fx.Node) -> fx.Node:
    factor = -mask.factor if mask.kind == "subtract" else mask.factor
    if not graph.dtype(part).is_floating_point:
        part = graph.call(aten.to.dtype, part, torch.float32, before=before, like=part)
    if factor == -1:
        part = graph.call(aten.neg.default, part, before=before, like=part)
    elif factor != 1:
        part = graph.call(aten.mul.Tensor, part, factor, before=before, like=part)
    return part if combined is None else graph.call(aten.add.Tensor, combined, part, before=before, like=part)


def _filled(
    graph: Graph, combined: fx.Node | None, where: fx.Node, mask: Mask, hidden: float, before: fx.Node
) -> fx.Node:
    if combined is None:
        pair = (hidden, 0.0) if mask.when else (0.0, hidden)
        return graph.call(aten.where.Scalar, where, *pair, before=before, like=where)
    if mask.when:
        return graph.call(aten.where.ScalarSelf, where, hidden, combined, before=before, like=where)
    return graph.call(aten.where.ScalarOther, where, combined, hidden, before=before, like=where)


def _fill(found: Attention, mask: Mask, dtype: torch.dtype) -> float:
    if mask.value == -torch.inf and not found.zeroed:
        return mask.value
    # bfloat16's lowest is a float32 too; float32's own would become -inf when the model is run in bfloat16 later
    return torch.finfo(torch.float16 if dtype == torch.float16 else torch.bfloat16).min


def _after(graph: Graph, nodes: list[fx.Node]) -> fx.Node:
    """The first place where all of these are known."""
    position = {node: index for index, node in enumerate(graph.nodes)}
    following: fx.Node = max(nodes, key=position.__getitem__).next
    while following.op in ("placeholder", "get_attr"):  # inputs stay together at the top
        following = following.next
    return following


# ---- layout ----------------------------------------------------------------------------------------------------------


def _regrouped(graph: Graph, found: Attention, mask: Mask, before: fx.Node) -> fx.Node:
    """The mask with the queries' leading dims, where it was put on scores whose leading dims were split otherwise."""
    tensor, like = mask.where, mask.where
    frame, target = graph.shape(mask.at)[:-2], found.leading
    same = graph.same_shape(frame, target)
    if same and not mask.flipped:
        return tensor
    while len(graph.shape(tensor)) < (2 if same else len(frame) + 2):
        tensor = graph.call(aten.unsqueeze.default, tensor, 0, before=before, like=like)
    if mask.flipped:
        tensor = graph.call(aten.transpose.int, tensor, -2, -1, before=before, like=like)
    if same:
        return tensor
    common = _common(frame, target)
    ours, theirs = len(frame) - common, len(target) - common
    shape = graph.shape(tensor)
    rest = [graph.size(tensor, i, before=before) for i in range(ours, len(shape))]
    if all(one(size) for size in shape[:ours]):
        return graph.call(aten.reshape.default, tensor, [*[1] * theirs, *rest], before=before, like=like)
    full = [
        -1 if same_size(own, size) else _placed(graph, found, size, before)
        for own, size in zip(shape[:ours], frame[:ours], strict=True)
    ]
    tensor = graph.call(aten.expand.default, tensor, [*full, *[-1] * len(rest)], before=before, like=like)
    wanted = [_placed(graph, found, size, before) for size in target[:theirs]]
    return graph.call(aten.reshape.default, tensor, [*wanted, *rest], before=before, like=like)


def _sizes_to_name(graph: Graph, found: Attention, mask: Mask) -> Shape:
    """The sizes that `_regrouped` has to write down."""
    frame, target = graph.shape(mask.at)[:-2], found.leading
    common = _common(frame, target)
    ours, theirs = len(frame) - common, len(target) - common
    shape = graph.shape(mask.where)
    prefix = (*[1] * (len(frame) + 2 - len(shape)), *shape)[:ours]
    if all(one(size) for size in prefix):
        return ()
    return (*[f for p, f in zip(prefix, frame[:ours], strict=True) if not same_size(p, f)], *target[:theirs])


def _common(a: Shape, b: Shape) -> int:
    """How many dims at the end are equal."""
    count = 0
    while count < min(len(a), len(b)) and same_size(a[-1 - count], b[-1 - count]):
        count += 1
    return count


def _size(graph: Graph, found: Attention, size: int | torch.SymInt) -> int | tuple[fx.Node, int] | None:
    """A size as a number, or as a dim of an input or of an operand: of nothing that the rewrite takes away."""
    if isinstance(size, int):
        return size
    for source in (*graph.inputs, found.query.node, found.value.node):
        for dim, other in enumerate(graph.shape(source) if graph.is_tensor(source) else ()):
            if not isinstance(other, int) and same_size(other, size):
                return source, dim
    return None


def _placed(graph: Graph, found: Attention, size: int | torch.SymInt, before: fx.Node) -> int | fx.Node:
    place = _size(graph, found, size)
    assert place is not None, "misfit() asks before"
    return place if isinstance(place, int) else graph.call(aten.sym_size.int, *place, before=before)


# ---- causal ----------------------------------------------------------------------------------------------------------


def constant_mask(graph: Graph, found: Attention) -> torch.Tensor | None:
    """All masks as one additive tensor when all are constant."""
    combined: torch.Tensor | None = None
    for mask in found.masks:
        value = graph.constant_value(mask.where)
        if value is None:
            return None
        if mask.flipped:
            value = (value if value.dim() > 1 else value[None]).mT
        if mask.kind == "fill":
            hidden = value.bool() if mask.when else ~value.bool()
            base = torch.zeros(()) if combined is None else combined
            combined = torch.where(hidden, torch.tensor(mask.value, dtype=base.dtype), base)
        else:
            value = value * (-mask.factor if mask.kind == "subtract" else mask.factor)
            combined = value if combined is None else combined + value
    return combined


def is_causal(graph: Graph, found: Attention) -> bool:
    """Whether the masks are, provably, the lower triangle: square, 0 up to the diagonal, hidden above it."""
    rows, columns = found.query.shape(graph)[-2], found.key.shape(graph)[-2]
    if not found.masks or found.zeroed or not same_size(rows, columns):
        return False
    mask = constant_mask(graph, found)
    if mask is not None and isinstance(rows, int):
        return mask.numel() == rows * rows and mask.dim() > 1 and _lower(mask.reshape(rows, -1))
    if len(found.masks) > 1 or found.masks[0].flipped:
        return False
    (only,) = found.masks
    if only.kind == "fill":
        where, when = truth(graph, only.where, only.when)
        return _triangle(graph, where, rows) == ("above" if when else "below")
    return only.kind == "add" and only.factor > 0 and _hides_above(graph, only.where, rows)


def _lower(mask: torch.Tensor) -> bool:
    above = torch.ones(mask.shape, dtype=torch.bool).triu(1)
    return bool((mask[~above] == 0).all() and (mask[above] <= LARGEST_FILL).all())


def _hides_above(graph: Graph, node: fx.Node, rows: int | torch.SymInt) -> bool:
    """An added `full(-inf).triu(1)`, or the corner of a constant one, of a dynamic size."""
    node, square = _core(graph, node, rows)
    if not square:
        return False
    constant = _corner(graph, node)
    if constant is not None:
        return _lower(constant)
    if not graph.is_op(node, aten.triu.default) or graph.arguments(node)["diagonal"] != 1:
        return False
    low, high = bounds(graph, node.args[0])
    return low == high <= LARGEST_FILL


def _triangle(graph: Graph, node: fx.Node, rows: int | torch.SymInt) -> str | None:
    """Where a condition holds exactly: "above" the diagonal, "below" it (and on it), or None: elsewhere or unknown."""
    node, square = _core(graph, node, rows)
    if not square:
        return None
    constant = _corner(graph, node)
    if constant is not None:
        held, below = constant.bool(), torch.ones(constant.shape, dtype=torch.bool).tril()
        return "below" if torch.equal(held, below) else "above" if torch.equal(held, ~below) else None
    for op, diagonal, name in ((aten.triu.default, 1, "above"), (aten.tril.default, 0, "below")):
        if graph.is_op(node, op) and graph.arguments(node)["diagonal"] == diagonal:
            return name if bounds(graph, node.args[0]) == (1.0, 1.0) else None
    return None


def _core(graph: Graph, node: fx.Node, rows: int | torch.SymInt) -> tuple[fx.Node, bool]:
    """(the matrix below casts and added dims of size 1, whether it is rows by rows)."""
    while True:
        node = skip_noops(graph, node)
        shape = graph.shape(node)
        casts = graph.is_op(node, aten.to, aten._to_copy) and graph.dtype(node) in (torch.bool, torch.float32)
        adds = graph.is_op(node, aten.unsqueeze.default) and graph.same_shape(shape[-2:], (rows, rows))
        if not ((casts or adds) and isinstance(node.args[0], fx.Node)):
            break
        node = node.args[0]
    square = len(shape) >= 2 and graph.same_shape(shape[-2:], (rows, rows)) and all(one(s) for s in shape[:-2])
    return node, square


def _corner(graph: Graph, node: fx.Node) -> torch.Tensor | None:
    """The square constant of which the node is the upper left corner."""
    sliced = 0
    while graph.is_op(node, aten.slice.Tensor):
        given = graph.arguments(node)
        if given["start"] not in (None, 0) or given["step"] != 1:
            return None
        node, sliced = given["self"], sliced + 1
    constant = graph.constant_value(node)
    if not sliced or constant is None or constant.dim() < 2 or constant.shape[-1] != constant.shape[-2]:
        return None
    return constant.reshape(constant.shape[-2:]) if constant.numel() == constant.shape[-1] ** 2 else None
