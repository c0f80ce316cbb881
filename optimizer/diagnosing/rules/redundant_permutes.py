"""Permutes that could go: undone by the next one, copied twice alike, a weight's copied at every call.

Silent for a permute by itself: it is a view, and what follows may want it.
"""

from __future__ import annotations

from optimizer.capturing.outline import OutlineNode
from optimizer.diagnosing.base import Evidence, register_rule
from optimizer.diagnosing.graphs.graph_rule import GraphRule, Sighting
from optimizer.diagnosing.graphs.view import COPIES, PERMUTES, GraphView, at, counted, moved_bytes, sources

REGROUPS = frozenset({"reshape", "flatten"})


@register_rule
class RedundantPermutes(GraphRule):
    name = "redundant_permutes"
    graph_threshold = "one permute that the next one undoes, or that is copied needlessly (structure: a proposal)"

    def look_at(self, graph: GraphView, evidence: Evidence) -> Sighting | None:
        permutes = [node for node in graph.calls(*PERMUTES) if _order(node) is not None]
        undone = [chain for node in permutes if (chain := _undone(graph, node))]
        copies = [node for node in graph.calls(*COPIES, *REGROUPS) if not node.view and _permuted(graph, node)]
        weights = [node for node in copies if graph.is_constant(node)]
        again = _again(graph, [node for node in copies if node not in weights])
        found = {node.name: node for node in (*(one for chain in undone for one in chain), *weights, *again)}
        if not found:
            return None
        nodes = list(found.values())
        moved = moved_bytes(graph, nodes)
        return Sighting(
            title=_title(len(undone) + len(weights) + len(again), moved) + at(sources(nodes)),
            evidence={
                "undone": len(undone),
                "copied_alike_twice": len(again),
                "copies_of_weights_at_every_call": len(weights),
                "bytes_moved": moved,
            },
            nodes=nodes,
            recovers=(0.8, 1.0),
            model="what does not run takes no time; 80 % at the least, since what follows may have found it in a cache",
            steps=_steps(bool(undone), bool(again), bool(weights)),
            structural="low" if moved else "info",
            passes=("remove_noops", "eliminate_common_subexpressions", "hoist_constants"),
        )


def _title(count: int, moved: int) -> str:
    if moved:
        return counted(count, "permute moves data", "permutes move data") + " for nothing"
    return counted(count, "permute is undone", "permutes are undone") + " by the next one"


def _steps(undone: bool, again: bool, weights: bool) -> list[str]:
    steps = []
    if undone:
        steps.append("Take out both permutes and the copies between them.")
    if again:
        steps.append("Permute and copy once, and use the result everywhere.")
    if weights:
        steps.append("Store the weight in the order in which it is used.")
    return steps


def _order(node: OutlineNode) -> list[int] | None:
    """Dimension i of the result is dimension `order[i]` of what is permuted; None where that is not known."""
    rank = len(node.sizes)
    if node.op == "permute":
        dims = node.given.get("dims")
        if not isinstance(dims, list) or len(dims) != rank or not all(isinstance(dim, int) for dim in dims):
            return None
        return [dim % rank for dim in dims]
    order = list(range(rank))
    if node.op == "t":
        return order[::-1] if rank <= 2 else None
    a, b = node.given.get("dim0"), node.given.get("dim1")
    if not (isinstance(a, int) and isinstance(b, int) and rank):
        return None
    order[a % rank], order[b % rank] = order[b % rank], order[a % rank]
    return order


def _undone(graph: GraphView, node: OutlineNode) -> list[OutlineNode]:
    """This permute, the one that it undoes, and the copies between; empty where it undoes none that is its alone."""
    chain, before = [node], graph.first(node)
    while before is not None and before.op in COPIES and len(graph.users(before)) == 1:
        chain.append(before)
        before = graph.first(before)
    if before is None or before.op not in PERMUTES:
        return []
    inner, outer = _order(before), _order(node)
    if inner is None or outer is None or len(inner) != len(outer):
        return []
    if [inner[dim] for dim in outer] != list(range(len(outer))):
        return []
    return [*chain, before] if len(graph.users(before)) == 1 else chain


def _permuted(graph: GraphView, node: OutlineNode) -> bool:
    before = graph.first(node)
    return before is not None and before.op in PERMUTES


def _again(graph: GraphView, copies: list[OutlineNode]) -> list[OutlineNode]:
    """All but the first of those that copy one tensor in one order and shape."""
    seen, found = set(), []
    for node in copies:
        permute = graph.first(node)
        assert permute is not None
        key = (permute.takes[0], str(_order(permute)), str(node.shape))
        if key in seen:
            found.append(node)
        seen.add(key)
    return found
