"""Who shares memory with whom, as a caller can see it: what a pass must ask before it makes two values one.

In-place writes inside the graph are not its business: `Graph.tainted` keeps passes off those.
"""

from __future__ import annotations

from torch import fx

from optimizer.optimizing.aliasing import shares_memory
from optimizer.optimizing.graph import Graph


def family(graph: Graph, node: fx.Node) -> set[fx.Node]:
    """The node and all that may be views of the same memory."""
    found, waiting = {node}, [node]
    while waiting:
        one = waiting.pop()
        beside = [*shares_memory(one), *[user for user in one.users if one in shares_memory(user)]]
        fresh = [n for n in beside if n not in found]
        found.update(fresh)
        waiting += fresh
    return found


def handed_back(graph: Graph, node: fx.Node) -> bool:
    """Whether the caller gets the node's memory, as itself or as a view."""
    return not family(graph, node).isdisjoint(graph.outputs)


def seen_outside(graph: Graph, node: fx.Node) -> bool:
    """Whether anyone outside may hold the node's memory: an input, a weight, or an output."""
    members = family(graph, node)
    return any(n.op in ("placeholder", "get_attr") for n in members) or not members.isdisjoint(graph.outputs)
