"""A small language for pieces of an undecomposed graph, and the search that finds one at a node.

    either(call(aten.gelu.default, X), mul(X, call(aten.sigmoid.default, X)))

A pattern is rooted at the last node. Operands of `add` and `mul` are tried both ways round. An argument that the
pattern leaves out must have its schema's default, so `gelu(approximate="tanh")` is no match of `gelu(x)`. A name that
occurs twice must be the same value both times. Common pieces are in `spellings`. Not for: pieces with several outputs;
those are put together by a kernel's own `match`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch.fx import Node

aten = torch.ops.aten
Op: TypeAlias = torch._ops.OpOverload
Pattern: TypeAlias = Any
"""Hole, Named, Call, Item, Either, a list of patterns, or a literal."""

CASTS = (aten.to.dtype, aten.to.dtype_layout, aten._to_copy.default, aten.type_as.default)


@dataclass(frozen=True)
class Hole:
    """Captures a value under its name; `_` captures nothing. `accepts` is asked about nodes and constants alike."""

    name: str
    accepts: Callable[[Any], bool]


@dataclass(frozen=True)
class Call:
    """A call of one of the targets. `shared`: it may have other users, and stays when it has."""

    targets: tuple[Op, ...]
    args: tuple[Pattern, ...]
    kwargs: Mapping[str, Pattern] = field(default_factory=dict)
    commutes: bool = False
    shared: bool = False


@dataclass(frozen=True)
class Either:
    options: tuple[Pattern, ...]


@dataclass(frozen=True)
class Named:
    """Captures the node itself, and goes on inside."""

    name: str
    inner: Pattern


@dataclass(frozen=True)
class Item:
    """One of several results."""

    index: int
    inner: Pattern


@dataclass(frozen=True)
class Made:
    """An argument that the graph does not hold: a cheap call, such as a view of a weight, for whoever fuses to put in
    front of the operation."""

    target: Op
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Found:
    """What a pattern captured, and the nodes that it went through."""

    values: Mapping[str, Any] = field(default_factory=dict)
    inside: tuple[Node, ...] = ()

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.values.get(name, default)


def find(pattern: Pattern, node: Node) -> Found | None:
    return next(every(pattern, node), None)


def every(pattern: Pattern, node: Node) -> Iterator[Found]:
    """All ways in which the pattern fits, for who tells the operands of a product apart by more than a pattern says."""
    return _unify(pattern, node, Found())


# ---- words of the language -----------------------------------------------------------------------------------------


def tensor(name: str) -> Hole:
    return Hole(name, is_tensor)


def optional(name: str) -> Hole:
    """A tensor or nothing."""
    return Hole(name, lambda value: value is None or is_tensor(value))


def number(name: str) -> Hole:
    """A constant written in the graph; a symbolic size is none."""
    return Hole(name, is_number)


def anything(name: str = "_") -> Hole:
    return Hole(name, lambda value: True)


def call(targets: Op | Sequence[Op], *args: Pattern, **kwargs: Pattern) -> Call:
    return Call(tuple(targets) if isinstance(targets, (list, tuple)) else (targets,), args, kwargs)


def shared(call: Call) -> Call:
    return Call(call.targets, call.args, call.kwargs, call.commutes, shared=True)


def named(name: str, inner: Pattern) -> Named:
    return Named(name, inner)


def either(*options: Pattern) -> Either:
    return Either(options)


def item(index: int, inner: Pattern) -> Item:
    return Item(index, inner)


def mul(a: Pattern, b: Pattern) -> Call:
    return Call((aten.mul.Tensor, aten.mul.Scalar), (a, b), commutes=True)


def add(a: Pattern, b: Pattern) -> Call:
    return Call((aten.add.Tensor, aten.add.Scalar), (a, b), commutes=True)


def sub(a: Pattern, b: Pattern) -> Call:
    return call((aten.sub.Tensor, aten.sub.Scalar), a, b)


# ---- the search ----------------------------------------------------------------------------------------------------


def _unify(pattern: Pattern, value: Any, found: Found) -> Iterator[Found]:
    if isinstance(pattern, Hole):
        yield from _fill(pattern, value, found)
    elif isinstance(pattern, Either):
        for option in pattern.options:
            yield from _unify(option, value, found)
    elif isinstance(pattern, Named):
        for one in _fill(anything(pattern.name), value, found):
            yield from _unify(pattern.inner, value, one)
    elif isinstance(pattern, Call):
        yield from _enter(pattern, value, found)
    elif isinstance(pattern, Item):
        if isinstance(value, Node) and value.target is operator.getitem and value.args[1] == pattern.index:
            yield from _unify(pattern.inner, value.args[0], Found(found.values, (*found.inside, value)))
    elif isinstance(pattern, (list, tuple)):
        if isinstance(value, (list, tuple)) and len(value) == len(pattern):
            yield from _all(list(zip(pattern, value, strict=True)), found)
    elif not isinstance(value, Node) and isinstance(pattern, bool) == isinstance(value, bool) and pattern == value:
        yield found


def _fill(hole: Hole, value: Any, found: Found) -> Iterator[Found]:
    if not hole.accepts(value):
        return
    if hole.name == "_":
        yield found
    elif hole.name not in found.values:
        yield Found({**found.values, hole.name: value}, found.inside)
    elif found.values[hole.name] is value or (not isinstance(value, Node) and found.values[hole.name] == value):
        yield found


def _enter(pattern: Call, value: Any, found: Found) -> Iterator[Found]:
    if not isinstance(value, Node) or value.op != "call_function" or value.target not in pattern.targets:
        return
    schema = value.target._schema.arguments  # type: ignore[union-attr]
    given = arguments(value)
    names = [argument.name for argument in schema]
    if len(pattern.args) > len(names):
        return
    wanted = dict(zip(names, pattern.args, strict=False))
    wanted.update({name: p for name, p in pattern.kwargs.items() if name in names})
    if any(not _is_default(given[a.name], a.default_value) for a in schema if a.name not in wanted):
        return
    if not pattern.shared:
        found = Found(found.values, (*found.inside, value))
    pairs = [(wanted[name], given[name]) for name in names if name in wanted]
    yield from _all(pairs, found)
    if pattern.commutes:
        (a, x), (b, y), *rest = pairs
        yield from _all([(a, y), (b, x), *rest], found)


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))


def _all(pairs: list[tuple[Pattern, Any]], found: Found) -> Iterator[Found]:
    if not pairs:
        yield found
        return
    (pattern, value), *rest = pairs
    for one in _unify(pattern, value, found):
        yield from _all(rest, one)


# ---- nodes ---------------------------------------------------------------------------------------------------------


def arguments(node: Node) -> dict[str, Any]:
    """All arguments of a call by their schema's names, defaults filled in."""
    assert isinstance(node.target, torch._ops.OpOverload)
    found: dict[str, Any] = {}
    for index, argument in enumerate(node.target._schema.arguments):
        given = node.args[index] if index < len(node.args) else node.kwargs.get(argument.name, argument.default_value)
        found[argument.name] = given
    return found


def value(node: Node) -> torch.Tensor:
    found = node.meta["val"]
    assert isinstance(found, torch.Tensor), node
    return found


def value_of(argument: Any) -> Any:
    """The fake value of an operation's argument: of a node, of one still to be made, or the constant itself."""
    if isinstance(argument, Node):
        return argument.meta["val"]
    if isinstance(argument, (list, tuple)):
        return [value_of(one) for one in argument]
    if not isinstance(argument, Made):
        return argument
    with enable_python_dispatcher(), torch.no_grad():  # composite operations meet symbolic sizes
        return argument.target(*value_of(argument.args))


def flat(node: Node, rank: int = 1) -> Node | Made:
    """The tensor without a leading dimension of size 1 above the rank."""
    shape = value(node).shape
    one = len(shape) == rank + 1 and isinstance(shape[0], int) and shape[0] == 1
    return Made(aten.squeeze.dim, (node, 0)) if one else node


def nodes_in(arguments: Any) -> list[Node]:
    """The nodes that an operation's arguments need."""
    if isinstance(arguments, Node):
        return [arguments]
    inner = arguments.args if isinstance(arguments, Made) else arguments
    return [node for one in inner for node in nodes_in(one)] if isinstance(inner, (list, tuple)) else []


def only_user(node: Node) -> Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def is_tensor(value: Any) -> bool:
    return isinstance(value, Node) and isinstance(value.meta.get("val"), torch.Tensor)


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def last(dim: Any, rank: int) -> bool:
    """Whether `dim` (a number, or a list of one) is the last of so many dimensions."""
    dims = dim if isinstance(dim, (list, tuple)) else [dim]
    return len(dims) == 1 and isinstance(dims[0], int) and dims[0] % rank == rank - 1


def is_dim(dim: Any, wanted: int, rank: int) -> bool:
    dims = dim if isinstance(dim, (list, tuple)) else [dim]
    return len(dims) == 1 and isinstance(dims[0], int) and dims[0] % rank == wanted % rank
