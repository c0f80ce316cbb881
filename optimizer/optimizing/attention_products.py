"""The two products of an attention: which operand is the queries, which the keys, which the values.

Reads `matmul`, `bmm` and `einsum` of two tensors (also with an ellipsis). Not recognised: more than one contracted
dimension, operands of different rank.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import fx

from optimizer.optimizing.graph import Graph, Shape
from optimizer.optimizing.matching import skip_noops

aten = torch.ops.aten
PRODUCTS = (aten.matmul.default, aten.bmm.default, aten.einsum.default)
VIEWS = (aten.view.default, aten.reshape.default, aten.flatten.using_ints, aten.unflatten.int)


@dataclass(frozen=True)
class Refused:
    reason: str
    node: fx.Node


@dataclass(frozen=True)
class Operand:
    """A tensor and the permutation that brings it to (leading dims..., rows, columns)."""

    node: fx.Node
    order: tuple[int, ...]

    def shape(self, graph: Graph) -> Shape:
        given = graph.shape(self.node)
        return tuple(given[i] for i in self.order)

    def through_transposes(self, graph: Graph) -> Operand:
        """The same tensor from before its transposes and no-ops."""
        node, order, rank = self.node, self.order, len(self.order)
        while True:
            node = skip_noops(graph, node)
            inner = permutation(graph, node)
            if inner is None or not isinstance(node.args[0], fx.Node):
                return Operand(node, order)
            node, order = node.args[0], tuple(inner[i] for i in order)
            assert len(order) == rank


def permutation(graph: Graph, node: fx.Node) -> list[int] | None:
    """The order of the input's dims in a transpose or permute; None for any other operation."""
    rank = len(graph.shape(node)) if graph.is_tensor(node) else 0
    if graph.is_op(node, aten.permute.default):
        return [int(d) % rank for d in node.args[1]]  # type: ignore[union-attr, arg-type]
    if graph.is_op(node, aten.transpose.int):
        a, b = (int(d) % rank for d in node.args[1:3])  # type: ignore[arg-type]
    elif graph.is_op(node, aten.mT.default):
        a, b = rank - 2, rank - 1
    else:
        return None
    order = list(range(rank))
    order[a], order[b] = order[b], order[a]
    return order


def turns(graph: Graph, node: fx.Node) -> bool:
    """Whether a node swaps the last two dims and nothing else."""
    order = permutation(graph, node)
    return order is not None and order == [*range(len(order) - 2), len(order) - 1, len(order) - 2]


def regroups(graph: Graph, node: fx.Node) -> bool:
    """Whether a node is a view that splits or joins leading dims and leaves the last two as they are."""
    if not graph.is_op(node, *VIEWS, aten.unsqueeze.default, aten.squeeze.dim) or not graph.is_tensor(node.args[0]):
        return False
    before, after = graph.shape(node.args[0]), graph.shape(node)  # type: ignore[arg-type]
    return min(len(before), len(after)) >= 3 and graph.same_shape(before[-2:], after[-2:])


def queries_and_keys(graph: Graph, product: fx.Node, *, flipped: bool) -> tuple[Operand, Operand] | None:
    """Of scores with a row per query; `flipped`: with a column per query."""
    if graph.is_op(product, aten.einsum.default):
        pair = _scores_by_einsum(graph, product)
    else:
        left, right = product.args[:2]
        if not (isinstance(left, fx.Node) and isinstance(right, fx.Node)):
            return None
        rank = len(graph.shape(left))
        if rank < 3 or len(graph.shape(right)) != rank:
            return None
        straight = tuple(range(rank))
        pair = Operand(left, straight), Operand(right, (*straight[:-2], rank - 1, rank - 2))
    return pair[::-1] if pair is not None and flipped else pair


def _scores_by_einsum(graph: Graph, product: fx.Node) -> tuple[Operand, Operand] | None:
    terms = einsum_terms(graph, product)
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


def values(
    graph: Graph, product: fx.Node, weights: fx.Node, dim: int, *, flipped: bool
) -> tuple[Operand, tuple[int, ...]] | Refused:
    """(values, the order of the product's dims) of weights that sum to one over their columns; `flipped`: their rows.

    `dim` is the softmax's, for the reason of a refusal.
    """
    wrong_axis = Refused(f"the softmax runs over dimension {dim}, not over the keys (the last one)", product)
    rank = len(graph.shape(weights))
    if graph.is_op(product, aten.einsum.default):
        return _values_by_einsum(graph, product, weights, flipped=flipped)
    left, right = product.args[:2]
    other = right if left is weights else left
    if left is right or not isinstance(other, fx.Node):
        return Refused("the weights are multiplied by themselves", product)
    if len(graph.shape(other)) != rank:
        return Refused("the values have another number of dimensions than the weights", product)
    straight = tuple(range(rank))
    turned = (*straight[:-2], rank - 1, rank - 2)
    if left is weights:
        return wrong_axis if flipped else (Operand(other, straight), straight)
    if not flipped:
        return Refused("the weights are the right factor of the product, not the left", product)
    return Operand(other, turned), turned


def _values_by_einsum(
    graph: Graph, product: fx.Node, weights: fx.Node, *, flipped: bool
) -> tuple[Operand, tuple[int, ...]] | Refused:
    terms = einsum_terms(graph, product)
    if terms is None:
        return Refused("its einsum does not take two tensors", product)
    (a, b), operands, out = terms
    of_weights, of_values, other = (a, b, operands[1]) if operands[0] is weights else (b, a, operands[0])
    *batch, row, key = list(of_weights)
    if flipped:
        row, key = key, row
    ours = [c for c in of_values if c not in of_weights]
    if key not in of_values or row in of_values or len(ours) != 1 or not set(batch) <= set(of_values):
        return Refused("its einsum does not sum over the keys", product)
    if set(out) != {*batch, row, *ours} or len(set(of_values)) != len(of_values):
        return Refused("its einsum does not sum over the keys", product)
    straight = [*batch, row, *ours]
    order = tuple(of_values.index(c) for c in (*batch, key, *ours))
    return Operand(other, order), tuple(straight.index(c) for c in out)


def einsum_terms(graph: Graph, node: fx.Node) -> tuple[list[str], list[fx.Node], str] | None:
    """(the letters of two operands, the operands, the letters of the result); an ellipsis becomes capital letters."""
    equation, operands = node.args[0], node.args[1]
    assert isinstance(equation, str)
    equation = equation.replace(" ", "")
    if "->" not in equation or not isinstance(operands, list | tuple) or len(operands) != 2:
        return None
    inputs, out = equation.split("->")
    letters = inputs.split(",")
    if "..." in equation:
        hidden = {len(graph.shape(o)) - len(x) + 3 for o, x in zip(operands, letters, strict=True) if "..." in x}  # type: ignore[arg-type]
        free = [c for c in "ABCDEFGH" if c not in equation]
        if len(hidden) != 1 or (count := hidden.pop()) > len(free):
            return None
        letters = [x.replace("...", "".join(free[:count])) for x in letters]
        out = out.replace("...", "".join(free[:count]))
    return letters, list(operands), out  # type: ignore[arg-type]
