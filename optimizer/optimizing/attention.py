"""Recognises hand-written attention around a softmax: scores of queries and keys, scales, masks, weights times values.

Walks up from the softmax over casts, scales and masks to the product of queries and keys, and down to the product with
the values. Reads only; `passes/fuse_attention.py` rewrites what is found. Not recognised: scores that are multiplied by
a tensor, more than one contracted dimension, several mask fills that are not of the usual large negative kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import fx

from optimizer.optimizing.graph import Graph
from optimizer.optimizing.matching import only_user, scalar, skip_noops

aten = torch.ops.aten
SOFTMAXES = (aten.softmax.int, aten._softmax.default)
PRODUCTS = (aten.matmul.default, aten.bmm.default, aten.einsum.default)
CASTS = (aten.to.dtype, aten.to.dtype_layout, aten._to_copy.default, aten.type_as.default)
DROPOUTS = (aten.dropout.default,)
LARGEST_FILL = -1e4
"""A masked score is set to this or less; a larger fill is no mask."""


@dataclass(frozen=True)
class Refused:
    reason: str
    node: fx.Node


@dataclass(frozen=True)
class Mask:
    """One step between scaled scores and softmax. `fill` sets `value` where `where` is `when`; `add` adds `where`."""

    kind: Literal["add", "subtract", "fill"]
    where: fx.Node
    value: float = 0.0
    when: bool = True


@dataclass(frozen=True)
class Operand:
    """A tensor and the permutation that brings it to (batch dims..., rows, columns)."""

    node: fx.Node
    order: tuple[int, ...]


@dataclass
class Attention:
    """softmax(scale * query key^T, masked) value. `output` is the node replaced, a permutation of (batch..., L, Ev)."""

    query: Operand
    key: Operand
    value: Operand
    scale: float
    masks: list[Mask]
    output: fx.Node
    output_order: tuple[int, ...]
    below: list[fx.Node]
    """Softmax and what lies between it and the output, in order."""


def find(graph: Graph, softmax: fx.Node) -> Attention | Refused | None:
    """The attention around this softmax; why it is none although it looks like one; None for any other softmax."""
    down = _weights_times_values(graph, softmax)
    up = _scores(graph, softmax)
    if isinstance(down, Refused):
        return down if not isinstance(up, Refused) and up is not None else None
    if up is None or down is None:
        return None
    if isinstance(up, Refused):
        return up
    given = graph.arguments(softmax)
    rank = len(graph.shape(softmax))
    if given["dim"] % rank != rank - 1:
        return Refused(f"the softmax runs over dimension {given['dim']}, not over the keys (the last one)", softmax)
    if rank not in (3, 4):
        return Refused(f"the scores have {rank} dimensions; three or four are handled", softmax)
    value, output, output_order, below = down
    query, key, scale, masks, above = up
    for node in (*above, softmax, *below):
        if len(node.users) != 1:
            return Refused(f"{node.name} is needed elsewhere too ({len(node.users)} users): it must be computed", node)
    found = Attention(query, key, value, scale, masks, output, output_order, [softmax, *below])
    return _unlike(graph, found) or _narrowed(graph, found, [*above, softmax, *below]) or found


def _unlike(graph: Graph, found: Attention) -> Refused | None:
    """Why the operands do not fit one call."""
    shapes = [_permuted(graph.shape(o.node), o.order) for o in (found.query, found.key, found.value)]
    for name, operand, shape in zip(("keys", "values"), (found.key, found.value), shapes[1:], strict=True):
        if len(shape) != len(shapes[0]) or not graph.same_shape(shape[:-2], shapes[0][:-2]):
            return Refused(f"the {name}' leading dimensions differ from the queries'", operand.node)
    dtypes = {graph.dtype(o.node) for o in (found.query, found.key, found.value)} | {graph.dtype(found.output)}
    if len(dtypes) != 1:
        return Refused(f"the operands have different dtypes: {sorted(map(str, dtypes))}", found.output)
    (dtype,) = dtypes
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


# ---- down: weights to output -----------------------------------------------------------------------------------------


def _weights_times_values(
    graph: Graph, softmax: fx.Node
) -> tuple[Operand, fx.Node, tuple[int, ...], list[fx.Node]] | Refused | None:
    """(values, the product, the order of its dims, the nodes between)."""
    weights, between = softmax, []
    while True:
        following = only_user(weights)
        if following is None:
            product = next((u for u in weights.users if graph.is_op(u, *PRODUCTS)), None)
            outside = next((u for u in weights.users if u is not product), None)
            if outside is None:
                return None
            what = "handed back" if outside.op == "output" else f"needed by {outside.name}"
            return Refused(f"the attention weights are {what} as well: they must be computed", weights)
        if graph.is_op(following, *PRODUCTS):
            break
        if graph.is_op(following, *DROPOUTS):
            given = graph.arguments(following)
            if given["train"] and given["p"] != 0:
                return Refused(f"dropout of the weights is active (p={given['p']})", following)
        elif following.op == "output":
            return Refused("the attention weights are handed back: they must be computed", weights)
        elif not (graph.is_op(following, *CASTS) or skip_noops(graph, following) is not following):
            return Refused(f"the weights go to {following.name}, not to a product with values", following)
        weights = following
        between.append(following)
    product = following
    rank = len(graph.shape(weights))
    if graph.is_op(product, aten.einsum.default):
        return _values_by_einsum(product, weights, between)
    left, right = product.args[:2]
    if left is not weights or not isinstance(right, fx.Node):
        return Refused("the weights are the right factor of the product, not the left", product)
    if len(graph.shape(right)) != rank:
        return Refused("the values have another number of dimensions than the weights", product)
    return Operand(right, tuple(range(rank))), product, tuple(range(rank)), between


def _values_by_einsum(
    product: fx.Node, weights: fx.Node, between: list[fx.Node]
) -> tuple[Operand, fx.Node, tuple[int, ...], list[fx.Node]] | Refused:
    terms = _einsum_terms(product)
    if terms is None:
        return Refused("its einsum does not take two tensors", product)
    (a, b), operands, out = terms
    of_weights, of_values, values = (a, b, operands[1]) if operands[0] is weights else (b, a, operands[0])
    *batch, row, key = list(of_weights)
    ours = [c for c in of_values if c not in of_weights]
    if key not in of_values or row in of_values or len(ours) != 1 or not set(batch) <= set(of_values):
        return Refused("its einsum does not sum over the keys", product)
    if set(out) != {*batch, row, *ours} or len(set(of_values)) != len(of_values):
        return Refused("its einsum does not sum over the keys", product)
    straight = [*batch, row, *ours]
    order = tuple(of_values.index(c) for c in (*batch, key, *ours))
    return Operand(values, order), product, tuple(straight.index(c) for c in out), between


# ---- up: scores to queries and keys ----------------------------------------------------------------------------------


def _scores(
    graph: Graph, softmax: fx.Node
) -> tuple[Operand, Operand, float, list[Mask], list[fx.Node]] | Refused | None:
    """(queries, keys, scale, masks from the inside out, the nodes between)."""
    node = softmax.args[0]
    masks: list[Mask] = []
    between: list[fx.Node] = []
    scale = 1.0
    while isinstance(node, fx.Node) and not graph.is_op(node, *PRODUCTS):
        between.append(node)
        step = _step(graph, node)
        if step is None and _product_above(graph, node):
            return Refused(f"{node.target} stands between the scores and the softmax", node)
        if step is None or isinstance(step, Refused):
            return step
        inner, factor, mask = step
        if mask is not None:
            if scale != 1.0:
                return Refused("the scores are scaled after the mask was put on", node)
            masks.append(mask)
        scale *= factor
        node = inner
    if not isinstance(node, fx.Node):
        return None
    between.append(node)
    operands = _queries_and_keys(graph, node)
    if operands is None or isinstance(operands, Refused):
        return operands
    query, key = operands
    query, factor = _unscaled(graph, query, node)
    scale *= factor
    return query, key, scale, masks[::-1], between


def _product_above(graph: Graph, node: fx.Node) -> bool:
    """Whether a product of queries and keys lies a few operations above: then this was meant as attention."""
    level = [node]
    for _ in range(5):
        level = [source for n in level for source in n.all_input_nodes]
        if any(graph.is_op(n, *PRODUCTS) and isinstance(_queries_and_keys(graph, n), tuple) for n in level):
            return True
    return False


def _step(graph: Graph, node: fx.Node) -> tuple[fx.Node, float, Mask | None] | Refused | None:
    """One operation between the product and the softmax: (its scores, a factor, a mask)."""
    if graph.is_op(node, *CASTS) or (graph.is_op(node, *DROPOUTS) and skip_noops(graph, node) is not node):
        return (node.args[0], 1.0, None) if isinstance(node.args[0], fx.Node) else None
    if graph.is_op(node, aten.mul.Tensor, aten.div.Tensor) and len(node.args) == 2 and not node.kwargs:
        return _scaled(graph, node)
    if graph.is_op(node, aten.add.Tensor, aten.sub.Tensor) and node.kwargs.get("alpha", 1) == 1:
        return _added(graph, node)
    if graph.is_op(node, aten.masked_fill.Scalar, aten.masked_fill.Tensor):
        given = graph.arguments(node)
        return _filled(graph, node, given["self"], given["mask"], given["value"], when=True)
    if graph.is_op(node, aten.where.self, aten.where.ScalarOther, aten.where.ScalarSelf):
        given = graph.arguments(node)
        if _leads_to_product(graph, given["self"]):
            return _filled(graph, node, given["self"], given["condition"], given["other"], when=False)
        return _filled(graph, node, given["other"], given["condition"], given["self"], when=True)
    return None


def _scaled(graph: Graph, node: fx.Node) -> tuple[fx.Node, float, None] | Refused | None:
    a, b = node.args[:2]
    factor = scalar(graph, b)
    if factor is None and graph.is_op(node, aten.mul.Tensor):
        a, factor = b, scalar(graph, a)
    if factor is not None and isinstance(a, fx.Node):
        divides = graph.is_op(node, aten.div.Tensor)
        if divides and factor == 0:
            return None
        return a, 1.0 / factor if divides else factor, None
    if any(_leads_to_product(graph, x) for x in node.args[:2]):
        return Refused("the scores are multiplied by a tensor", node)
    return None


def _added(graph: Graph, node: fx.Node) -> tuple[fx.Node, float, Mask] | Refused | None:
    a, b = node.args[:2]
    if not (isinstance(a, fx.Node) and isinstance(b, fx.Node)):
        return None
    subtracts = graph.is_op(node, aten.sub.Tensor)
    if _leads_to_product(graph, a):
        scores, mask = a, Mask("subtract" if subtracts else "add", b)
    elif not subtracts and _leads_to_product(graph, b):
        scores, mask = b, Mask("add", a)
    else:
        return None
    if not graph.same_shape(graph.shape(scores), graph.shape(node)):
        return Refused("the mask makes the scores larger", node)
    return scores, 1.0, mask


def _filled(
    graph: Graph, node: fx.Node, scores: object, where: object, value: object, *, when: bool
) -> tuple[fx.Node, float, Mask] | Refused | None:
    number = scalar(graph, value)
    if not (isinstance(scores, fx.Node) and isinstance(where, fx.Node)) or not _leads_to_product(graph, scores):
        return None
    if number is None:
        return Refused("masked scores are set to something that is no constant number", node)
    if number > LARGEST_FILL:
        return Refused(f"masked scores are set to {number:g}, which does not hide them", node)
    if not graph.same_shape(graph.shape(scores), graph.shape(node)):
        return Refused("the mask makes the scores larger", node)
    return scores, 1.0, Mask("fill", where, number, when)


def _leads_to_product(graph: Graph, node: object) -> bool:
    """Whether scores are reached from here by steps alone."""
    while isinstance(node, fx.Node):
        if graph.is_op(node, *PRODUCTS):
            return _queries_and_keys(graph, node) is not None
        step = _step(graph, node)
        if isinstance(step, Refused):
            return True
        if step is None:
            return False
        node = step[0]
    return False


def _queries_and_keys(graph: Graph, product: fx.Node) -> tuple[Operand, Operand] | Refused | None:
    if graph.is_op(product, aten.einsum.default):
        return _scores_by_einsum(product)
    query, transposed = product.args[:2]
    if not (isinstance(query, fx.Node) and isinstance(transposed, fx.Node)):
        return None
    rank = len(graph.shape(query))
    if rank < 3 or len(graph.shape(transposed)) != rank:
        return None
    straight = tuple(range(rank))
    return Operand(query, straight), Operand(transposed, (*straight[:-2], rank - 1, rank - 2))


def _scores_by_einsum(product: fx.Node) -> tuple[Operand, Operand] | Refused | None:
    terms = _einsum_terms(product)
    if terms is None or len(terms[2]) < 3:
        return None
    (a, b), operands, out = terms
    *batch, row, column = list(out)
    if row in b and column in a:
        a, b, operands = b, a, operands[::-1]
    contracted = [c for c in a if c in b and c not in out]
    fits = row in a and row not in b and column in b and column not in a and len(contracted) == 1
    if not fits or set(a) != {*batch, row, *contracted} or set(b) != {*batch, column, *contracted}:
        return None
    if len(set(a)) != len(a) or len(set(b)) != len(b):
        return None
    query = Operand(operands[0], tuple(a.index(c) for c in (*batch, row, *contracted)))
    return query, Operand(operands[1], tuple(b.index(c) for c in (*batch, column, *contracted)))


def _einsum_terms(node: fx.Node) -> tuple[list[str], list[fx.Node], str] | None:
    """(the letters of two operands, the operands, the letters of the result)."""
    equation, operands = node.args[0], node.args[1]
    assert isinstance(equation, str)
    equation = equation.replace(" ", "")
    if "..." in equation or "->" not in equation:
        return None
    inputs, out = equation.split("->")
    letters = inputs.split(",")
    if len(letters) != 2 or not isinstance(operands, list | tuple):
        return None
    return letters, list(operands), out  # type: ignore[arg-type]


def _unscaled(graph: Graph, operand: Operand, product: fx.Node) -> tuple[Operand, float]:
    """Takes a constant factor off the queries when only this product sees it, and casts that the values never had."""
    node = operand.node
    if not graph.is_op(node, aten.mul.Tensor, aten.div.Tensor) or len(node.args) != 2 or node.kwargs:
        return operand, 1.0
    if only_user(node) is not product:
        return operand, 1.0
    found = _scaled(graph, node)
    if found is None or isinstance(found, Refused) or graph.dtype(found[0]) != graph.dtype(node):
        return operand, 1.0
    return Operand(found[0], operand.order), found[1]


def _permuted(shape: tuple[int | torch.SymInt, ...], order: tuple[int, ...]) -> tuple[int | torch.SymInt, ...]:
    return tuple(shape[i] for i in order)
