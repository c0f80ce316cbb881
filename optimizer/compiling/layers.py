"""The layers of a graph that may go to a lower precision, in its order, each with what a recipe can call it by.

To int8 go linear layers with constant weights; to bfloat16 these and every other product, convolution, attention and
table look-up.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import fx
from torch.utils import _pytree as pytree

from optimizer.compiling.bfloat16_marks import computes, operation
from optimizer.compiling.int8 import linear_layers, shape_of
from optimizer.compiling.kept import Shape
from optimizer.optimizing.graph import Graph
from optimizer.optimizing.matching import ConstantLinear

TABLES = frozenset({"embedding", "embedding_bag", "_embedding_bag"})
# what follows a bias, which comes first
SUMMED = frozenset({"addmm", "baddbmm", "addbmm"})


@dataclass(frozen=True)
class Layer:
    """`linear` is None where it is no linear layer with constant weights."""

    node: fx.Node
    shape: Shape
    linear: ConstantLinear | None = None


def int8_layers(graph: Graph) -> list[Layer]:
    return [Layer(one.node, Shape(*shape_of(one)), one) for one in linear_layers(graph)]


def bfloat16_layers(graph: Graph) -> list[Layer]:
    linears = {layer.node: layer for layer in int8_layers(graph)}
    return [
        linears.get(node) or Layer(node, _shape(node))
        for node in graph.operations()
        if computes(node) and node.users and node not in graph.tainted
    ]


def _shape(node: fx.Node) -> Shape:
    name = operation(node)
    operands = [n.meta["val"] for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor)]
    result = next(leaf for leaf in pytree.tree_leaves(node.meta["val"]) if isinstance(leaf, torch.Tensor))
    first = next(value for value in operands[int(name in SUMMED) :] if value.is_floating_point())
    if name in TABLES:
        return Shape(_size(first.shape[0]), _size(first.shape[-1]), name)
    if name.startswith("conv"):
        weight = next(value for value in operands[1:] if value.is_floating_point())
        channels = -(weight.dim() - 1)
        return Shape(_size(first.shape[channels]), _size(result.shape[channels]), name)
    return Shape(_size(first.shape[-1]), _size(result.shape[-1]) if result.dim() else 1, name)


def _size(size: int | torch.SymInt) -> int | None:
    """None where it varies, or where there is nothing to be called by."""
    return size if isinstance(size, int) and size > 0 else None
