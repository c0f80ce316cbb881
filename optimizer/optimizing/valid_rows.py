"""The rows of padded sequences that a mask shows: which they are, and any value of the graph at these rows alone.

A mask over [batch, positions] makes `[batch, positions, features]` `[rows, features]`; one that is the same for the
whole batch, [1, positions], makes it `[batch, rows, features]`. How many rows there are is known at run time only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from optimizer.optimizing.graph import Graph, Shape, same_size
from optimizer.optimizing.matching import one

aten = torch.ops.aten


@dataclass(frozen=True)
class Frame:
    """Where a value has the mask's dimensions: side by side from `axis` on or, `flat`, merged into the one at `axis`.

    Of an operand that broadcasts, `axis` may be negative: its first dimensions are not there.
    """

    axis: int
    flat: bool = False


@dataclass(frozen=True)
class At:
    """This value, at the valid rows."""

    node: fx.Node
    frame: Frame


@dataclass(frozen=True)
class Count:
    """How many rows there are, as an argument of a call."""


@dataclass(frozen=True)
class Masked:
    """The sizes of a mask's own dimensions: those in which it differs from place to place."""

    sizes: Shape

    @property
    def count(self) -> int:
        return len(self.sizes)

    def dims(self, frame: Frame) -> range:
        return range(frame.axis, frame.axis + (1 if frame.flat else self.count))

    def expected(self, frame: Frame) -> list[Any]:
        flat = self.sizes[0]
        for size in self.sizes[1:]:
            flat = flat * size
        return [flat] if frame.flat else list(self.sizes)

    def is_whole(self, graph: Graph, node: fx.Node, frame: Frame) -> bool:
        """Whether the value differs from row to row in every dimension of the mask."""
        shape = graph.shape(node)
        if frame.axis < 0 or frame.axis + len(self.dims(frame)) > len(shape):
            return False
        pairs = zip(self.dims(frame), self.expected(frame), strict=True)
        return all(same_size(shape[dim], size) and not one(size) for dim, size in pairs)

    def fits(self, graph: Graph, at: At) -> bool:
        """Whether each of the mask's dimensions is there in full, or has size 1, or is left out in front."""
        shape = graph.shape(at.node)
        pairs = zip(self.dims(at.frame), self.expected(at.frame), strict=True)
        return all(d < 0 or (d < len(shape) and (one(shape[d]) or same_size(shape[d], size))) for d, size in pairs)

    def behind(self, frame: Frame, dim: int) -> int:
        """What becomes of another dimension of the value: the mask's are one dimension from here on."""
        return dim if dim < frame.axis else dim - len(self.dims(frame)) + 1


# Compilers ask of every size whether it is 0 or 1, and may not ask that of one which the data decides.
SPARE = 2
KnownRows = dict[tuple[fx.Node, bool], tuple[fx.Node, fx.Node]]
"""By mask, and what it is at valid rows: that mask without its dimensions of size 1, True at them; their indices."""


class ValidRows:
    """Emits, in front of `before`, the rows' indices once, values at these rows, and what these values become.

    Behind the valid rows the first place of all is computed `SPARE` times more, and left out in the end.
    """

    def __init__(
        self, graph: Graph, masked: Masked, mask: fx.Node, shown: bool, before: fx.Node, known: KnownRows
    ) -> None:
        """Wanted are the rows where `mask` (bool) is `shown`. `known`: what was emitted for earlier places."""
        self.graph, self.masked, self.before = graph, masked, before
        if (mask, shown) not in known:
            known[mask, shown] = self._find(mask, shown)
        self.valid, self.found = known[mask, shown]
        first = self.call(aten.new_zeros.default, self.found, [SPARE, masked.count])
        self.indices = self._columns(self.call(aten.cat.default, [self.found, first], 0))
        self._flat: fx.Node | None = None
        self._count: fx.Node | None = None
        self._gathered: dict[tuple[fx.Node, Frame], fx.Node] = {}

    def _find(self, mask: fx.Node, shown: bool) -> tuple[fx.Node, fx.Node]:
        repeated = [dim for dim, size in enumerate(self.graph.shape(mask)) if one(size)]
        valid = self.call(aten.squeeze.dims, mask, repeated) if repeated else mask
        valid = valid if shown else self.call(aten.logical_not.default, valid)
        return valid, self.call(aten.nonzero.default, valid)

    def _columns(self, found: fx.Node) -> list[fx.Node]:
        return [self.call(aten.select.int, found, 1, i) for i in range(self.masked.count)]

    def call(self, op: Any, *args: Any, **kwargs: Any) -> fx.Node:
        return self.graph.call(op, *args, before=self.before, like=self.before, **kwargs)

    @property
    def flat(self) -> fx.Node:
        """The rows' places in the mask's dimensions merged into one."""
        if self._flat is None:
            whole = self.indices[0]
            for dim, index in enumerate(self.indices[1:], 1):
                wide = self.graph.size(self.valid, dim, before=self.before)
                whole = self.call(aten.add.Tensor, self.call(aten.mul.Tensor, whole, wide), index)
            self._flat = whole
        return self._flat

    @property
    def count(self) -> fx.Node:
        if self._count is None:
            self._count = self.call(aten.sym_size.int, self.indices[0], 0)
        return self._count

    def of(self, at: At) -> fx.Node:
        """A value of the dense graph at the valid rows, in one dimension where the mask's were."""
        key = (at.node, at.frame)
        if key not in self._gathered:
            self._gathered[key] = self._gather(at)
        return self._gathered[key]

    def _gather(self, at: At) -> fx.Node:
        shape = self.graph.shape(at.node)
        dims = [d for d in self.masked.dims(at.frame) if 0 <= d < len(shape)]
        if not dims:
            return at.node
        indices = [self.flat] if at.frame.flat else self.indices[len(self.indices) - len(dims) :]
        full = {d: index for d, index in zip(dims, indices, strict=True) if not one(shape[d])}
        drop = [d for d in dims if d not in full] if full else dims[1:]
        source = self.call(aten.squeeze.dims, at.node, drop) if drop else at.node
        if not full:
            return source
        return self.call(aten.index.Tensor, source, [*[None] * dims[0], *full.values()])

    def put(self, values: fx.Node, axis: int, full: fx.Node) -> fx.Node:
        """`full` with the values at the valid rows, which lie along `axis`, in their places."""
        count = self.call(aten.sym_size.int, self.found, 0)
        valid = self.call(aten.narrow.default, values, axis, 0, count)
        return self.call(aten.index_put.default, full, [*[None] * axis, *self._columns(self.found)], valid)
