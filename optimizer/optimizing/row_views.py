"""Rules of operations that move values: views, orders of dimensions, repetition, joining."""

from __future__ import annotations

import math

import torch
from torch import fx

from optimizer.optimizing.graph import Graph, Shape, same_size
from optimizer.optimizing.matching import one
from optimizer.optimizing.rows import (
    BOTH,
    ELSEWHERE,
    MIXES,
    Known,
    Once,
    Size,
    Treatment,
    common,
    operand_of,
    rank_of,
    rule,
)

aten = torch.ops.aten


@rule(aten.unsqueeze)
def _unsqueeze(graph: Graph, node: fx.Node, known: Known) -> Treatment | str:
    found = operand_of(graph, node, known, "self")
    if isinstance(found, str):
        return found
    dim = graph.arguments(node)["dim"] % rank_of(graph, node)
    return Treatment(found.axis + (dim <= found.axis), found.inner)


@rule(aten.permute, aten.transpose.int, aten.t, aten.mT, aten.numpy_T, aten.swapaxes, aten.movedim)
def _permute(graph: Graph, node: fx.Node, known: Known) -> Treatment | str:
    found = operand_of(graph, node, known, "self")
    if isinstance(found, str):
        return found
    return Treatment(order_of(graph, node).index(found.axis), found.inner)


def order_of(graph: Graph, node: fx.Node) -> list[int]:
    """For each dimension of the result the operand's: asked of the operation itself, on a tensor of distinct sizes."""
    rank = len(graph.shape(node.args[0]))  # type: ignore[arg-type]
    probe = torch.empty(tuple(range(2, rank + 2)), device="meta")
    return [size - 2 for size in node.target(probe, *node.args[1:], **node.kwargs).shape]  # type: ignore[operator]


@rule(aten.view.default, aten.reshape, aten._unsafe_view, aten.flatten.using_ints, aten.unflatten.int, aten.view_as)
def _view(graph: Graph, node: fx.Node, known: Known) -> Treatment | str:
    source = node.args[0]
    if source not in known:
        return BOTH
    found = known[source]  # type: ignore[index]
    placed = _viewed(graph.shape(source), graph.shape(node), found)  # type: ignore[arg-type]
    if placed is None:
        return "the view merges the batch with other dimensions"
    axis, inner = placed
    return Treatment(axis, inner, aten.reshape.default, "view")


def _viewed(before: Shape, after: Shape, found: Once) -> tuple[int, Size] | None:
    """Where the batch lies after a view. It must stay the outermost part of one dimension: what is ahead of it is kept,
    and a row's entries behind it may be cut anew, for the view keeps their order."""
    ahead = math.prod(before[: found.axis])
    batch = before[found.axis] // found.inner
    for axis, size in enumerate(after):
        if not same_size(math.prod(after[:axis]), ahead) or one(size):
            continue
        inner = _number(size // batch)
        return (axis, inner) if same_size(size, batch * inner) else None
    return None


def _number(size: Size) -> Size:
    """A symbolic size whose expression is a number, as that number."""
    return int(size.node.expr) if isinstance(size, torch.SymInt) and size.node.expr.is_number else size


@rule(aten.expand, aten.expand_as)
def _expand(graph: Graph, node: fx.Node, known: Known) -> Treatment | str:
    source = node.args[0]
    if source not in known:
        return BOTH
    found = known[source]  # type: ignore[index]
    axis = found.axis + rank_of(graph, node) - len(graph.shape(source))  # type: ignore[arg-type]
    return Treatment(axis, found.inner, aten.expand.default, "expand")


@rule(aten.repeat)
def _repeat(graph: Graph, node: fx.Node, known: Known) -> Treatment | str:
    found = operand_of(graph, node, known, "self")
    if isinstance(found, str):
        return found
    axis = found.axis + rank_of(graph, node) - len(graph.shape(node.args[0]))  # type: ignore[arg-type]
    return Treatment(axis, found.inner) if graph.arguments(node)["repeats"][axis] == 1 else MIXES


@rule(aten.repeat_interleave.self_int)
def _repeat_interleave(graph: Graph, node: fx.Node, known: Known) -> Treatment | str:
    found = operand_of(graph, node, known, "self")
    if isinstance(found, str):
        return found
    dim = graph.arguments(node)["dim"]
    return found.kept() if isinstance(dim, int) and dim % rank_of(graph, node) != found.axis else MIXES


@rule(aten.cat, aten.stack)
def _joined(graph: Graph, node: fx.Node, known: Known) -> Treatment | str:
    operands, arguments = list(node.args[0]), graph.arguments(node)  # type: ignore[arg-type]
    if any(n not in known for n in operands):
        return BOTH
    found = common([(known[n].axis, known[n].inner) for n in operands])
    if found is None:
        return ELSEWHERE
    axis, inner = found
    dim = arguments["dim"] % rank_of(graph, node)
    if node.target is aten.stack.default:
        return Treatment(axis + (dim <= axis), inner)
    return Treatment(axis, inner) if dim != axis else MIXES
