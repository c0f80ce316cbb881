"""Reads a concatenation as sums and products of a few tensors: `[q, k, q-k, q*k]` is q, k, +q-k and q*k.

A tensor that is one row repeated over the sequence (expand, repeat, unsqueeze, ...) is named by the row itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import fx

from optimizer.optimizing.graph import Graph, Shape, same_size
from optimizer.optimizing.matching import one, scalar, skip_noops

aten = torch.ops.aten


@dataclass(frozen=True)
class Factor:
    """A tensor before it was repeated: `root`, with a dimension of size 1 put in at `unsqueeze` where that is given."""

    root: fx.Node
    unsqueeze: int | None

    def shape(self, graph: Graph) -> Shape:
        shape = graph.shape(self.root)
        return shape if self.unsqueeze is None else (*shape[: self.unsqueeze], 1, *shape[self.unsqueeze :])


Atom = tuple[Factor, ...]
"""A product of factors, in a fixed order so that q*k and k*q are one."""


@dataclass(frozen=True)
class Term:
    """`coefficient * atom`, the part of one operand of the concatenation."""

    atom: Atom
    coefficient: float


@dataclass(frozen=True)
class Block:
    """One operand: where its columns start, how many it has, and its terms."""

    start: int
    width: int
    terms: tuple[Term, ...]


def read_blocks(graph: Graph, operands: list[fx.Node]) -> list[Block]:
    """Sums are taken apart only where that brings at most one tensor that is not an operand already."""
    known = {term.atom for operand in operands for term in _terms(graph, operand, 1.0) if _whole(graph, operand)}
    blocks, start = [], 0
    for operand in operands:
        terms = _terms(graph, operand, 1.0)
        rows = graph.shape(operand)[:-1]
        new = {t.atom for t in terms if t.atom not in known and graph.same_shape(atom_shape(graph, t.atom)[:-1], rows)}
        if len(terms) > 1 and len(new) > 1:
            terms = [Term(atom=(factor(graph, operand),), coefficient=1.0)]
        known |= {t.atom for t in terms}
        width = graph.shape(operand)[-1]
        assert isinstance(width, int)
        blocks.append(Block(start, width, tuple(terms)))
        start += width
    return blocks


def atom_shape(graph: Graph, atom: Atom) -> Shape:
    return tuple(_broadcast(sizes) for sizes in zip(*[f.shape(graph) for f in atom], strict=True))


def _broadcast(sizes: tuple[int | torch.SymInt, ...]) -> int | torch.SymInt:
    return next((size for size in sizes if not one(size)), 1)


def _whole(graph: Graph, operand: fx.Node) -> bool:
    """An operand that is one tensor or one product, not a sum."""
    return len(_terms(graph, operand, 1.0)) == 1


def _terms(graph: Graph, node: fx.Node, coefficient: float) -> list[Term]:
    node = skip_noops(graph, node)
    if graph.is_op(node, aten.sub.Tensor, aten.add.Tensor):
        arguments = graph.arguments(node)
        a, b, alpha = arguments["self"], arguments["other"], scalar(graph, arguments["alpha"])
        if _alike(graph, node, a, b) and alpha is not None:
            sign = -1.0 if graph.is_op(node, aten.sub.Tensor) else 1.0
            return _merged(_terms(graph, a, coefficient) + _terms(graph, b, coefficient * sign * alpha))
    if graph.is_op(node, aten.neg.default):
        return _terms(graph, node.args[0], -coefficient)  # type: ignore[arg-type]
    if graph.is_op(node, aten.mul.Tensor):
        a, b = node.args[:2]
        for tensor, number in ((a, scalar(graph, b)), (b, scalar(graph, a))):
            if number is None or not isinstance(tensor, fx.Node) or not graph.is_tensor(tensor):
                continue
            if graph.same_shape(graph.shape(tensor), graph.shape(node)):
                return _terms(graph, tensor, coefficient * number)
        if _alike(graph, node, a, b):
            factors = sorted((factor(graph, a), factor(graph, b)), key=lambda f: (f.root, f.unsqueeze or 0))  # type: ignore[arg-type]
            return [Term(tuple(factors), coefficient)]
    return [Term((factor(graph, node),), coefficient)]


def _merged(terms: list[Term]) -> list[Term]:
    sums: dict[Atom, float] = {}
    for term in terms:
        sums[term.atom] = sums.get(term.atom, 0.0) + term.coefficient
    return [Term(atom, coefficient) for atom, coefficient in sums.items()]


def _alike(graph: Graph, node: fx.Node, a: object, b: object) -> bool:
    """Two tensors of one dtype and rank whose features are not broadcast."""
    if not (isinstance(a, fx.Node) and isinstance(b, fx.Node) and graph.is_tensor(a) and graph.is_tensor(b)):
        return False
    shapes = [graph.shape(n) for n in (node, a, b)]
    same_rank = len({len(s) for s in shapes}) == 1
    if not same_rank or graph.dtype(a) != graph.dtype(node) or graph.dtype(b) != graph.dtype(node):
        return False
    return all(same_size(s[-1], shapes[0][-1]) for s in shapes)


def factor(graph: Graph, node: fx.Node) -> Factor:
    """Walks up to the row that was repeated; the tensor itself when it was not."""
    while True:
        node = skip_noops(graph, node)
        inner = _before_repeat(graph, node)
        if inner is None:
            break
        node = inner
    if graph.is_op(node, aten.unsqueeze.default):
        root, dim = skip_noops(graph, node.args[0]), node.args[1] % len(graph.shape(node))  # type: ignore[arg-type, operator]
        if dim < len(graph.shape(node)) - 1:
            return Factor(root, dim)
    if graph.is_op(node, aten.view.default, aten.reshape.default):
        found = _viewed(graph, node)
        if found is not None:
            return found
    return Factor(node, None)


def _before_repeat(graph: Graph, node: fx.Node) -> fx.Node | None:
    """The input of an operation that only repeats dimensions of size 1 (never the last)."""
    repeats = graph.is_op(node, aten.expand, aten.expand_as, aten.repeat.default, aten.repeat_interleave.self_int)
    inner = node.args[0] if repeats else None
    if not isinstance(inner, fx.Node):
        return None
    before, after = graph.shape(inner), graph.shape(node)
    if len(before) != len(after) or not same_size(before[-1], after[-1]):
        return None
    return inner if all(same_size(a, b) or one(a) for a, b in zip(before, after, strict=True)) else None


def _viewed(graph: Graph, node: fx.Node) -> Factor | None:
    """`q.view(B, 1, D)`, and `q.repeat(1, T).view(B, T, D)`."""
    inner = skip_noops(graph, node.args[0])  # type: ignore[arg-type]
    shape, before = graph.shape(node), graph.shape(inner)
    if len(shape) == len(before) + 1 == 3 and one(shape[1]) and graph.same_shape((shape[0], shape[2]), before):
        return Factor(inner, 1)
    if graph.is_op(inner, aten.repeat.default):
        root = skip_noops(graph, inner.args[0])  # type: ignore[arg-type]
        row, times = graph.shape(root), inner.args[1]
        one_row = len(row) == 2 and isinstance(times, list | tuple) and len(times) == 2 and times[0] == 1
        if one_row and len(shape) == 3 and graph.same_shape((shape[0], shape[2]), row):
            return Factor(root, 1)
    return None
