"""Reads bmm, matmul and einsum of two tensors as one thing: the letters of their dimensions, as einsum writes them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import fx

from optimizer.optimizing.graph import Graph, same_size

aten = torch.ops.aten
PRODUCTS = (aten.bmm.default, aten.matmul.default, aten.einsum.default)


@dataclass(frozen=True)
class Product:
    """`letters` of the two operands, each letter once an operand, and of the result."""

    node: fx.Node
    operands: tuple[fx.Node, fx.Node]
    letters: tuple[str, str]
    out: str


def read_product(graph: Graph, node: fx.Node) -> Product | None:
    """None for an ellipsis, a diagonal, an equation without an arrow, and a matmul that broadcasts."""
    if graph.is_op(node, aten.einsum.default):
        equation, operands = node.args[:2]
        assert isinstance(equation, str) and isinstance(operands, list | tuple)
        inputs, arrow, out = equation.replace(" ", "").partition("->")
        letters = inputs.split(",")
        if not arrow or "." in inputs or len(letters) != 2 or any(len(set(x)) < len(x) for x in letters):
            return None
        a, b = operands
    else:
        a, b = node.args[:2]
        letters, out = ["bij", "bjk"], "bik"
        ranks = [len(graph.shape(n)) if isinstance(n, fx.Node) else 0 for n in (a, b)]
        if ranks != [3, 3] or not same_size(graph.shape(a)[0], graph.shape(b)[0]):  # type: ignore[arg-type]
            return None
    if not (isinstance(a, fx.Node) and isinstance(b, fx.Node)):
        return None
    sizes: dict[str, int | torch.SymInt] = {}
    for operand, names in zip((a, b), letters, strict=True):
        for letter, size in zip(names, graph.shape(operand), strict=True):
            if not same_size(sizes.setdefault(letter, size), size):
                return None
    return Product(node, (a, b), (letters[0], letters[1]), out)
