"""Recognises hand-written attention around a softmax: scores of queries and keys, scales, masks, weights times values.

Walks up from the softmax over casts, scales, masks and views to the product of queries and keys (`attention_scores`),
and down to the product with the values. Reads only; `passes/fuse_attention.py` rewrites what is found. Not recognised:
scores that are multiplied by a tensor that differs along the keys, more than one contracted dimension, mask fills that
are not of the usual large negative kind.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import fx

from optimizer.optimizing.attention_products import PRODUCTS, VIEWS, Operand, Refused, regroups, turns, values
from optimizer.optimizing.attention_scores import CASTS, DROPOUTS, Mask, RowScale, Scores, read_scores, truth
from optimizer.optimizing.graph import Graph, Shape, same_size
from optimizer.optimizing.matching import is_noop, one, only_user, scalar

__all__ = ["SOFTMAXES", "Attention", "Mask", "Operand", "Refused", "find"]

aten = torch.ops.aten
SOFTMAXES = (aten.softmax.int, aten._softmax.default)


@dataclass
class Attention:
    """softmax(scale * query key^T, masked) value. `output` is the node replaced: (leading..., L, Ev) permuted."""

    query: Operand
    key: Operand
    value: Operand
    scale: float
    masks: list[Mask]
    output: fx.Node
    output_order: tuple[int, ...]
    below: list[fx.Node]
    """Softmax and what lies between it and the output, in order."""
    leading: Shape = ()
    """The leading dims of the product: those of the operands, broadcast."""
    row_scales: list[RowScale] = field(default_factory=list)
    scaled: list[tuple[fx.Node, fx.Node]] = field(default_factory=list)
    """(a multiplication of queries or keys whose factor went into `scale`, its operand)."""
    zeroed: bool = False
    """Whether the weights of what the only fill hides are set to 0 behind the softmax."""


@dataclass
class _Below:
    """What was found on the way from the softmax down."""

    value: Operand
    product: fx.Node
    order: tuple[int, ...]
    between: list[fx.Node]
    zeroed: fx.Node | None
    """The operation that sets some weights to 0."""


def find(graph: Graph, softmax: fx.Node) -> Attention | Refused | None:
    """The attention around this softmax; why it is none although it looks like one; None for any other softmax."""
    rank, dim = len(graph.shape(softmax)), graph.arguments(softmax)["dim"]
    if rank < 3:
        return None
    flipped = dim % rank == rank - 2
    down = _weights_times_values(graph, softmax, dim, flipped)
    up = read_scores(graph, softmax, flipped=flipped)
    if isinstance(down, Refused):
        return down if isinstance(up, Scores) else None
    if up is None or down is None:
        return None
    if isinstance(up, Refused):
        return up
    if dim % rank < rank - 2:
        return Refused(f"the softmax runs over dimension {dim}, not over the keys (the last one)", softmax)
    for node in (*up.between, softmax, *down.between):
        if len(node.users) != 1:
            return Refused(f"{node.name} is needed elsewhere too ({len(node.users)} users): it must be computed", node)
    found = Attention(
        query=up.query,
        key=up.key,
        value=down.value,
        scale=up.scale,
        masks=up.masks,
        output=down.product,
        output_order=down.order,
        below=[softmax, *down.between],
        row_scales=up.row_scales,
        scaled=up.scaled,
    )
    _use_narrow_operands(graph, found)
    refused = _unlike(graph, found) or _narrowed(graph, found, [*up.between, softmax, *down.between])
    refused = refused or _masks_apart(found) or _zeroed(graph, found, down.zeroed)
    if refused is not None:
        return refused
    _before_flattening(graph, found)
    return found


def _use_narrow_operands(graph: Graph, found: Attention) -> None:
    """Queries and keys that are only widened for the product: the fused call computes in float32 inside anyway."""
    dtype = graph.dtype(found.value.node)
    for name in ("query", "key"):
        operand: Operand = getattr(found, name).through_transposes(graph)
        inner, wide = operand.node.args[0] if operand.node.args else None, graph.dtype(operand.node)
        if not graph.is_op(operand.node, *CASTS) or not isinstance(inner, fx.Node) or wide == dtype:
            continue
        if graph.dtype(inner) == dtype and torch.promote_types(dtype, wide) == wide:
            setattr(found, name, Operand(inner, operand.order))


def _unlike(graph: Graph, found: Attention) -> Refused | None:
    """Why the operands do not fit one call."""
    shapes = [o.shape(graph) for o in (found.query, found.key, found.value)]
    if len(shapes[0]) > 5:
        return Refused(f"the scores have {len(shapes[0])} dimensions; three to five are handled", found.below[0])
    names = ("queries", "keys", "values")
    if len({len(shape) for shape in shapes}) != 1:
        return Refused("queries, keys and values have different numbers of dimensions", found.output)
    found.leading = tuple(
        next((s for s in sizes if not one(s)), 1) for sizes in zip(*[s[:-2] for s in shapes], strict=True)
    )
    for name, shape in zip(names, shapes, strict=True):
        if not all(same_size(a, b) or one(a) for a, b in zip(shape[:-2], found.leading, strict=True)):
            return Refused(f"the {name}' leading dimensions differ from the others'", found.output)
    dtypes = {graph.dtype(o.node) for o in (found.query, found.key, found.value)} | {graph.dtype(found.output)}
    if len(dtypes) != 1:
        return Refused(f"the operands have different dtypes: {sorted(map(str, dtypes))}", found.output)
    (dtype,) = dtypes
    for scale in found.row_scales:
        if graph.dtype(scale.factor) != dtype:
            return Refused("the scores are multiplied by a tensor of another dtype", scale.factor)
    if not dtype.is_floating_point:
        return Refused(f"the operands are {dtype}, which has no attention", found.output)
    return None


def _narrowed(graph: Graph, found: Attention, nodes: list[fx.Node]) -> Refused | None:
    """A cast that rounds scores or weights: the fused call would leave the rounding out, and give something else."""
    dtype = graph.dtype(found.query.node)
    for node in nodes:
        got = graph.dtype(node)
        if not got.is_floating_point or torch.promote_types(got, dtype) != got:
            return Refused(f"{node.name} makes {got} of what is computed from {dtype}: values are lost there", node)
    return None


def _masks_apart(found: Attention) -> Refused | None:
    """Finite fills are told from each other, and from what is added to them, in rows that are hidden entirely only."""
    finite = [m for m in found.masks if m.kind == "fill" and m.value != -torch.inf]
    if len({m.value * m.factor for m in finite}) > 1:
        return Refused("two fills of different size: a row that is hidden entirely would differ", finite[-1].at)
    for index, mask in enumerate(found.masks):
        if mask.kind != "fill" and any(m in finite for m in found.masks[:index]):
            return Refused("something is added to filled scores: a row that is hidden entirely would differ", mask.at)
    return None


def _zeroed(graph: Graph, found: Attention, zeroed: fx.Node | None) -> Refused | None:
    if zeroed is None:
        return None
    fills = [m for m in found.masks if m.kind == "fill"]
    same = len(fills) == 1 and truth(graph, fills[0].where, fills[0].when) == _zeros(graph, zeroed)
    alike = same and graph.same_shape(graph.shape(fills[0].at), graph.shape(zeroed))
    if not alike or fills[0].flipped or found.masks[-1] is not fills[0]:
        return Refused("weights are set to 0 by another mask than the scores'", zeroed)
    found.zeroed = True
    return None


def _before_flattening(graph: Graph, found: Attention) -> None:
    """Operands [batch * heads, rows, columns] become what they were flattened from, [batch, heads, rows, columns]."""
    if len(found.output_order) != 3:
        return
    operands = [_unflattened(graph, o) for o in (found.query, found.key, found.value)]
    if any(o is None for o in operands) or found.row_scales:
        return
    query, key, value = (o for o in operands if o is not None)
    leading = query.shape(graph)[:2]
    if not all(graph.same_shape(o.shape(graph)[:2], leading) for o in (key, value)):
        return
    found.leading = leading
    found.query, found.key, found.value = query, key, value
    found.output_order = (0, *(i + 1 for i in found.output_order))
    following = only_user(found.output)
    if following is not None and graph.is_op(following, *VIEWS) and regroups(graph, following):
        rows = graph.shape(following)
        if len(rows) == 4 and graph.same_shape(rows[:2], leading):
            found.below.append(found.output)
            found.output = following


def _unflattened(graph: Graph, operand: Operand) -> Operand | None:
    operand = operand.through_transposes(graph)
    node = operand.node
    if not graph.is_op(node, *VIEWS) or not regroups(graph, node) or operand.order[0] != 0:
        return None
    inner: fx.Node = node.args[0]  # type: ignore[assignment]
    if len(graph.shape(inner)) != 4:
        return None
    return Operand(inner, (0, *(i + 1 for i in operand.order))).through_transposes(graph)


# ---- down: weights to output -----------------------------------------------------------------------------------------


def _weights_times_values(graph: Graph, softmax: fx.Node, dim: int, flipped: bool) -> _Below | Refused | None:
    weights, zeroed = softmax, None
    between: list[fx.Node] = []
    while True:
        following = only_user(weights)
        if following is None:
            return _shared(graph, weights)
        if graph.is_op(following, *PRODUCTS):
            break
        if following.op == "output":
            return Refused("the attention weights are handed back: they must be computed", weights)
        if zeroed is None and not flipped and _zeros(graph, following) is not None:
            zeroed = following
        elif turns(graph, following):
            flipped = not flipped
        elif graph.is_op(following, *DROPOUTS):
            given = graph.arguments(following)
            if given["train"] and given["p"] != 0:
                return Refused(f"dropout of the weights is active (p={given['p']})", following)
        elif not (graph.is_op(following, *CASTS) or is_noop(graph, following) or regroups(graph, following)):
            return Refused(f"the weights go to {following.name}, not to a product with values", following)
        weights = following
        between.append(following)
    read = values(graph, following, weights, dim, flipped=flipped)
    return read if isinstance(read, Refused) else _Below(read[0], following, read[1], between, zeroed)


def _shared(graph: Graph, weights: fx.Node) -> Refused | None:
    product = next((u for u in weights.users if graph.is_op(u, *PRODUCTS)), None)
    outside = next((u for u in weights.users if u is not product), None)
    if outside is None:
        return None
    what = "handed back" if outside.op == "output" else f"needed by {outside.name}"
    return Refused(f"the attention weights are {what} as well: they must be computed", weights)


def _zeros(graph: Graph, node: fx.Node) -> tuple[fx.Node, bool] | None:
    """(the condition, when it hides) of `weights.masked_fill(condition, 0)` and of `where` with a 0."""
    if graph.is_op(node, aten.masked_fill.Scalar, aten.masked_fill.Tensor):
        given = graph.arguments(node)
        weights, where, zero, when = given["self"], given["mask"], given["value"], True
    elif graph.is_op(node, aten.where.self, aten.where.ScalarOther, aten.where.ScalarSelf):
        given = graph.arguments(node)
        where, when = given["condition"], scalar(graph, given["self"]) is not None
        zero, weights = (given["self"], given["other"]) if when else (given["other"], given["self"])
    else:
        return None
    fits = scalar(graph, zero) == 0 and graph.is_tensor(weights)
    fits = fits and graph.same_shape(graph.shape(node), graph.shape(weights))
    return truth(graph, where, when) if fits else None
