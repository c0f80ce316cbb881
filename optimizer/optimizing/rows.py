"""How an operation treats rows: where the batch lies in its result when its operand's rows are all alike.

An operation for which every row of the result follows from the same row of its operands keeps a batch of equal rows
equal. Anything else (a sum over the batch, a sort of it, batch norm in training, random numbers, operations not named
here) mixes rows as far as this module knows, and is refused with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import fx

from optimizer.optimizing.graph import Graph, same_size

Size: TypeAlias = int | torch.SymInt


@dataclass(frozen=True)
class Treatment:
    """The operation applied to single rows: where the batch lies in its result, and what changes about it.

    `sizes`: its sizes are those of a view (`view`) or an expansion (`expand`). `first`: the argument of which only the
    first entry is left. `results`: how many of its results are looked at; None: all.
    """

    axis: int
    inner: Size = 1
    target: Any = None
    sizes: Literal["view", "expand"] | None = None
    first: str | None = None
    results: int | None = None


@dataclass(frozen=True)
class Once:
    """A value of equal rows: `node` holds a single row of it. Along `axis` the value has `inner` entries a row, more
    than one where a view merged the batch with the dimensions behind it. The value of an operation with several
    results is the tuple, and `axis` holds for each of them."""

    node: fx.Node
    axis: int
    inner: Size = 1

    def kept(self) -> Treatment:
        """Of an operation that leaves the dimensions as they are."""
        return Treatment(self.axis, self.inner)


Known: TypeAlias = Mapping[fx.Node, Once]
Rule: TypeAlias = Callable[[Graph, fx.Node, Known], Treatment | str]
_RULES: dict[Any, Rule] = {}

MIXES = "it works along the batch"
UNKNOWN = "it may mix rows"
ELSEWHERE = "its operands repeat along different dimensions"
BOTH = "its operands do not all repeat over the batch"


def treatment(graph: Graph, node: fx.Node, known: Known) -> Treatment | str:
    """How to apply `node` to single rows, or why not. `known`: its operands that repeat, one of them at least."""
    if not isinstance(node.target, torch._ops.OpOverload) or node in graph.tainted:
        return UNKNOWN
    if torch.Tag.nondeterministic_seeded in node.target.tags and not _draws_nothing(graph, node):
        return "it draws random numbers of each row's own"
    found = rule_of(node.target)
    return UNKNOWN if found is None else found(graph, node, known)


def rule_of(op: torch._ops.OpOverload) -> Rule | None:
    found = _RULES.get(op) or _RULES.get(op.overloadpacket)
    return _RULES[torch.Tag.pointwise] if found is None and torch.Tag.pointwise in op.tags else found


def _draws_nothing(graph: Graph, node: fx.Node) -> bool:
    arguments = graph.arguments(node)
    return arguments.get("train") is False or 0 in (arguments.get("p"), arguments.get("dropout_p"))


def rule(*ops: Any) -> Callable[[Rule], Rule]:
    def filed(function: Rule) -> Rule:
        _RULES.update(dict.fromkeys(ops, function))
        return function

    return filed


def operand_of(graph: Graph, node: fx.Node, known: Known, name: str) -> Once | str:
    """The operand `name` where it repeats and no other does."""
    value = graph.arguments(node)[name]
    if not isinstance(value, fx.Node) or value not in known:
        return BOTH
    if any(n in known for n in node.all_input_nodes if n is not value):
        return BOTH
    return known[value]


def rank_of(graph: Graph, node: fx.Node) -> int:
    value = graph.value(node)
    return len((value[0] if isinstance(value, tuple | list) else value).shape)


def common(places: Sequence[tuple[int, Size]]) -> tuple[int, Size] | None:
    """The dimension along which all operands repeat, where it is one."""
    (axis, inner), *others = places
    return (axis, inner) if all(a == axis and same_size(i, inner) for a, i in others) else None
