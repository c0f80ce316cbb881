"""Calls of one operation on equal arguments become one call.

Arguments are compared with their defaults filled in, and 1, 1.0 and True are three different arguments. Not for
operations that draw random numbers, write in place or give sizes that depend on data; refuses two equal results that
are both handed back, since the caller would get one memory twice.
"""

from __future__ import annotations

import operator
from typing import Any, ClassVar, Literal

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols
from torch.utils import _pytree as pytree

from optimizer.optimizing.aliasing import shares_memory
from optimizer.optimizing.base import Pass, Report, register_pass
from optimizer.optimizing.graph import Graph
from optimizer.optimizing.memory import handed_back

UNINITIALISED = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided")


@register_pass
class EliminateCommonSubexpressions(Pass):
    name = "eliminate_common_subexpressions"
    title = "Compute equal expressions once"
    summary = "Calls of one operation on equal arguments become one call."
    numerics: ClassVar[Literal["exact", "reassociates"]] = "exact"
    order = 20

    def apply(self, graph: Graph, options: Any, report: Report) -> None:
        known: dict[Any, fx.Node] = {}
        for node in graph.nodes:
            key = _key(graph, node)
            if key is None:
                continue
            first = known.setdefault(key, node)
            if first is node or not node.users:
                continue
            if node.op == "call_function" and _would_merge_outputs(graph, node, first):
                report.refused(node, f"it and the equal {first.name} are both handed back and must not share memory")
                continue
            if node.op == "call_function":
                report.applied(node, f"equals {first.name}")
            _replace(graph, node, first)


def _key(graph: Graph, node: fx.Node) -> Any:
    """What two nodes must share to be one; None for a node that must stay."""
    if node in graph.tainted:
        return None
    if node.op == "get_attr":
        return ("get_attr", node.target)
    if node.op != "call_function" or "val" not in node.meta:
        return None
    if node.target is operator.getitem:
        return ("getitem", node.args[0], node.args[1])
    if not isinstance(node.target, torch._ops.OpOverload) or not _pure(node.target):
        return None
    leaves = pytree.tree_leaves(node.meta["val"])
    if any(isinstance(v, torch.Tensor | torch.SymInt) and has_free_unbacked_symbols(v) for v in leaves):
        return None
    return (node.target, *[_frozen(value) for value in graph.arguments(node).values()])


def _pure(op: torch._ops.OpOverload) -> bool:
    if op.namespace not in ("aten", "prims", "fuseworks"):
        return False  # a foreign operation may do what its schema does not say
    random = torch.Tag.nondeterministic_seeded in op.tags
    name = op._schema.name.split("::")[1]
    return not (random or op._schema.is_mutable or name in UNINITIALISED) and len(op._schema.returns) > 0


def _frozen(value: Any) -> Any:
    """A hashable form in which equal means equal to the operation: numbers by type and text (1 is not 1.0 nor True)."""
    if isinstance(value, list | tuple):
        return tuple(_frozen(v) for v in value)
    if isinstance(value, fx.Node):
        return value
    return (type(value).__name__, repr(value))


def _would_merge_outputs(graph: Graph, a: fx.Node, b: fx.Node) -> bool:
    return not shares_memory(a) and handed_back(graph, a) and handed_back(graph, b)


def _replace(graph: Graph, node: fx.Node, first: fx.Node) -> None:
    if isinstance(node.meta["val"], list | tuple):  # several outputs: its getitems follow and become equal in turn
        node.replace_all_uses_with(first)
    else:
        graph.replace(node, first)
