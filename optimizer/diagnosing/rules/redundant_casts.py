"""Casts that could go: there and back again, the same one twice, a weight's at every call.

Silent for casts to the dtype that a tensor has already (they move nothing), and for single numbers.
"""

from __future__ import annotations

from optimizer.capturing.outline import OutlineNode
from optimizer.diagnosing.base import Evidence, register_rule
from optimizer.diagnosing.graphs.graph_rule import GraphRule, Sighting
from optimizer.diagnosing.graphs.view import CASTS, COPIES, GraphView, at, counted, sources


@register_rule
class RedundantCasts(GraphRule):
    name = "redundant_casts"
    graph_threshold = "one cast that nothing would miss (structure alone: a proposal)"

    def look_at(self, graph: GraphView, evidence: Evidence) -> Sighting | None:
        back = [pair for node in _casts(graph) if (pair := _there_and_back(graph, node))]
        again = _again(graph, _casts(graph))
        weights = [node for node in _casts(graph) if graph.is_constant(node)]
        found = {node.name: node for node in (*(one for pair in back for one in pair), *again, *weights)}
        if not found:
            return None
        nodes = list(found.values())
        return Sighting(
            title=f"{counted(len(nodes), 'cast', 'casts')} could go{at(sources(nodes))}",
            evidence={
                "there_and_back": len(back),
                "of_the_same_twice": len(again),
                "of_weights_at_every_call": len(weights),
                "casts": list(dict.fromkeys(_told(graph, node) for node in nodes))[:8],
                "bytes_moved": sum(node.bytes + sum(one.bytes for one in graph.takes(node)) for node in nodes),
            },
            nodes=nodes,
            recovers=(0.8, 1.0),
            model="what does not run takes no time; 80 % at the least, since what follows may have found it in a cache",
            steps=_steps(bool(back), bool(again), bool(weights)),
            structural="low",
            passes=("remove_noops", "eliminate_common_subexpressions", "hoist_constants"),
        )


def _steps(back: bool, again: bool, weights: bool) -> list[str]:
    steps = []
    if back:
        steps.append("Leave a tensor in its dtype: a cast that is undone at once changes nothing or loses digits.")
    if again:
        steps.append("Cast once, and use the result everywhere.")
    if weights:
        steps.append("Cast weights once: in __init__, or module.to(dtype) before serving.")
    return steps


def _casts(graph: GraphView) -> list[OutlineNode]:
    return [node for node in graph.calls(*CASTS) if _casts_really(graph, node)]


def _casts_really(graph: GraphView, node: OutlineNode) -> bool:
    before = graph.first(node)
    return before is not None and before.dtype not in (None, node.dtype) and node.elements > 1


def _there_and_back(graph: GraphView, node: OutlineNode) -> list[OutlineNode]:
    """This cast, and the one that it undoes unless others need that, too."""
    before = graph.first(node)
    assert before is not None
    inner = graph.up(before, lambda one: one.op not in CASTS and (one.view or one.op in COPIES))
    if inner.op not in CASTS or not _casts_really(graph, inner):
        return []
    source = graph.first(inner)
    if source is None or source.dtype != node.dtype:
        return []
    return [inner, node] if len(graph.users(inner)) == 1 else [node]


def _again(graph: GraphView, casts: list[OutlineNode]) -> list[OutlineNode]:
    """All but the first of those that cast one tensor to one dtype."""
    seen, found = set(), []
    for node in casts:
        key = (node.takes[0], node.dtype)
        if key in seen:
            found.append(node)
        seen.add(key)
    return found


def _told(graph: GraphView, node: OutlineNode) -> str:
    before = graph.first(node)
    return f"{before.dtype if before is not None else '?'} to {node.dtype}"
