"""Which integers an input may hold: follows each input to the tables that it indexes.

The graph is run once on the samples; beside every tensor that is only moved about (viewed, sliced, selected, joined,
offset by a constant) two shadows run along: which column of which input each element came from, and what was added to
it. Where such a tensor indexes something of fixed size, that size bounds the column. An index that was computed (a
hash, a position) bounds nothing.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

UNKNOWN = -1
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_MOVES = frozenset({
    "view", "reshape", "_unsafe_view", "flatten", "unflatten", "unsqueeze", "squeeze", "transpose", "t", "permute",
    "movedim", "expand", "slice", "select", "narrow", "index_select", "index", "gather", "repeat",
    "repeat_interleave", "tile", "clone", "contiguous", "detach", "alias", "flip", "roll", "unbind", "split",
    "split_with_sizes", "chunk", "tensor_split", "masked_select",
})  # fmt: skip
_SAME = frozenset({
    "to", "_to_copy", "type_as", "long", "int", "lift_fresh_copy", "clamp", "clamp_min", "clamp_max", "masked_fill",
    "detach_",
})  # fmt: skip


@dataclass(frozen=True)
class Shadow:
    """Where each element came from, and what was added to it since."""

    source: torch.Tensor
    added: torch.Tensor


@dataclass
class Bounds:
    """Per column of one input: from (inclusive) and below; None where nothing bounds it."""

    low: list[int | None]
    below: list[int | None]


@dataclass
class _Columns:
    """Numbers the columns of all integer inputs through."""

    first: dict[int, int] = field(default_factory=dict)
    count: dict[int, int] = field(default_factory=dict)
    total: int = 0

    def shadow(self, index: int, tensor: torch.Tensor, fixed: bool) -> Shadow:
        columns = tensor.shape[-1] if fixed else 1
        self.first[index], self.count[index] = self.total, columns
        self.total += columns
        source = self.first[index] + (torch.arange(columns) if fixed else torch.zeros((), dtype=torch.int64))
        return Shadow(source.expand(tensor.shape).contiguous(), torch.zeros(tensor.shape, dtype=torch.int64))


def id_bounds(program: ExportedProgram, inputs: list[torch.Tensor]) -> dict[int, Bounds]:
    """Bounds by index of input, for the integer inputs that index something of fixed size."""
    tracer = _Tracer(program.module(check_guards=False), inputs)
    with torch.no_grad():
        tracer.run(*[tensor.clone() for tensor in inputs])
    found = {}
    for index, first in tracer.columns.first.items():
        at = range(first, first + tracer.columns.count[index])
        below = [tracer.below.get(column) for column in at]
        if any(value is not None for value in below):
            found[index] = Bounds([tracer.low.get(column) for column in at], below)
    return found


class _Tracer(fx.Interpreter):
    def __init__(self, module: fx.GraphModule, inputs: list[torch.Tensor]) -> None:
        super().__init__(module)
        self.shadows: dict[fx.Node, Any] = {}
        self.columns = _Columns()
        self.low: dict[int, int] = {}
        self.below: dict[int, int] = {}
        for index, node in enumerate(n for n in module.graph.nodes if n.op == "placeholder"):
            tensor = inputs[index]
            if tensor.dtype in _INTEGERS and tensor.numel():
                value = node.meta["val"]
                fixed = value.dim() >= 2 and isinstance(value.shape[-1], int)
                self.shadows[node] = self.columns.shadow(index, tensor, fixed)

    def run_node(self, n: fx.Node) -> Any:
        if n.op == "call_function" and any(isinstance(a, fx.Node) and a in self.shadows for a in n.all_input_nodes):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            shadow = self._shadow(n, args, kwargs)  # before the call: an in-place operation changes what it reads
            result = super().run_node(n)
            if shadow is not None:
                self.shadows[n] = shadow
            return result
        return super().run_node(n)

    def _shadow(self, n: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        of = [self.shadows.get(a) if isinstance(a, fx.Node) else None for a in n.args]
        if n.target is operator.getitem:
            return of[0][args[1]] if isinstance(of[0], list) else None
        if not isinstance(n.target, torch._ops.OpOverload):
            return None
        name = n.target._schema.name.partition("::")[2]
        self._sinks(name, n, args, of)
        first = of[0] if of else None
        if name in _SAME:
            return first
        if name in _MOVES and isinstance(first, Shadow) and n.target._overloadname != "dtype":
            return _paired(n.target(first.source, *args[1:], **kwargs), n.target(first.added, *args[1:], **kwargs))
        if name in ("cat", "stack", "concat"):
            return self._joined(n, args, kwargs)
        if name in ("add", "sub"):
            return self._offset(name, args, kwargs, of)
        if name == "where" and len(args) == 3:
            a, b = (o if isinstance(o, Shadow) else _nothing(v) for o, v in zip(of[1:], args[1:], strict=True))
            return Shadow(torch.where(args[0], a.source, b.source), torch.where(args[0], a.added, b.added))
        return None

    def _joined(self, n: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Shadow:
        nodes: Any = n.args[0]
        parts = [self.shadows.get(node) or _nothing(value) for node, value in zip(nodes, args[0], strict=True)]
        target: Any = n.target
        source = target([p.source for p in parts], *args[1:], **kwargs)
        return Shadow(source, target([p.added for p in parts], *args[1:], **kwargs))

    def _offset(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], of: list[Any]) -> Shadow | None:
        """`ids + constant`, `constant + ids`, `ids - constant`."""
        if len(of) < 2 or isinstance(of[0], Shadow) == isinstance(of[1], Shadow) or (name == "sub" and of[0] is None):
            return None
        shadow, other = (of[0], args[1]) if isinstance(of[0], Shadow) else (of[1], args[0])
        other = torch.as_tensor(other)
        if other.dtype not in _INTEGERS or kwargs.get("alpha", 1) != 1:
            return None
        added = shadow.added + other if name == "add" else shadow.added - other
        return Shadow(shadow.source.expand(added.shape), added)

    def _sinks(self, name: str, n: fx.Node, args: tuple[Any, ...], of: list[Any]) -> None:
        if name in ("embedding", "embedding_bag", "_embedding_bag"):
            self._bound(of[1], n.args[0], 0)
        elif name == "index_select" and len(of) > 2:
            self._bound(of[2], n.args[0], args[1])
        elif name in ("gather", "take_along_dim") and of[0] is None:
            self._bound(of[2] if name == "gather" else of[1], n.args[0], args[1] if name == "gather" else args[2])
        elif name == "one_hot" and len(args) > 1 and args[1] > 0:
            self._limit(of[0], int(args[1]))
        elif name == "index" and of[0] is None:
            nodes: Any = n.args[1]
            for dim, index in enumerate(nodes):
                if isinstance(index, fx.Node):
                    self._bound(self.shadows.get(index), n.args[0], dim)

    def _bound(self, shadow: Any, table: Any, dim: int) -> None:
        value = table.meta.get("val") if isinstance(table, fx.Node) else None
        if value is None:  # get_attr nodes of weights carry no value
            value = self.env.get(table)
        rows = value.shape[dim] if isinstance(value, torch.Tensor) else None
        if isinstance(rows, int):
            self._limit(shadow, rows)

    def _limit(self, shadow: Any, rows: int) -> None:
        if not isinstance(shadow, Shadow):
            return
        known = shadow.source != UNKNOWN
        source, added = shadow.source[known], shadow.added[known]
        offsets = {int(c): int(added[source == c].max()) for c in source.unique()}
        starts = sorted({*offsets.values(), rows})
        for column, offset in offsets.items():
            # one table for many columns, each shifted to its own rows: a column ends where the next one starts
            end = next((s for s in starts if s > offset), rows) if len(set(offsets.values())) > 1 else rows
            self.below[column] = min(self.below.get(column, end - offset), end - offset)
            self.low[column] = max(self.low.get(column, 0), -offset)


def _paired(source: Any, added: Any) -> Any:
    if isinstance(source, (list, tuple)):
        return [Shadow(a, b) for a, b in zip(source, added, strict=True)]
    return Shadow(source, added)


def _nothing(value: Any) -> Shadow:
    shape = value.shape if isinstance(value, torch.Tensor) else ()
    return Shadow(torch.full(shape, UNKNOWN), torch.zeros(shape, dtype=torch.int64))
