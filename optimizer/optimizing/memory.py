"""Who shares memory with whom, as a caller can see it: what a pass must ask before it makes two values one.

In-place writes inside the graph are not its business: `Graph.tainted` keeps passes off those.
"""

from __future__ import annotations

import torch
from torch import fx

from optimizer.optimizing.aliasing import shares_memory
from optimizer.optimizing.graph import Graph

aten = torch.ops.aten


def family(graph: Graph, node: fx.Node) -> set[fx.Node]:
    """The node and all that may be views of the same memory."""
    found, waiting = {node}, [node]
    while waiting:
        one = waiting.pop()
        beside = [*_viewed(one), *[user for user in one.users if one in _viewed(user)]]
        fresh = [n for n in beside if n not in found]
        found.update(fresh)
        waiting += fresh
    return found


def _viewed(node: fx.Node) -> list[fx.Node]:
    sources = shares_memory(node)
    # einsum of one tensor may be a view (a transpose); a product of several is fresh
    return [] if node.target is torch.ops.aten.einsum.default and len(sources) > 1 else sources


def handed_back(graph: Graph, node: fx.Node) -> bool:
    """Whether the caller gets the node's memory, as itself or as a view."""
    return not family(graph, node).isdisjoint(graph.outputs)


def seen_outside(graph: Graph, node: fx.Node) -> bool:
    """Whether anyone outside may hold the node's memory: an input, a weight, or an output."""
    members = family(graph, node)
    return any(n.op in ("placeholder", "get_attr") for n in members) or not members.isdisjoint(graph.outputs)


def own_memory(graph: Graph, node: fx.Node, *, before: fx.Node, like: fx.Node) -> fx.Node:
    """A dense copy. `contiguous` would not do: it hands a view back that happens to be dense."""
    return graph.call(aten.clone.default, node, memory_format=torch.contiguous_format, before=before, like=like)
