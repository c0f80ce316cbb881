"""A linear layer runs on features that were repeated for every candidate: the same products again and again.

Where a user's features are expanded over the candidates, joined to theirs, and then multiplied. Silent below four
times, for constants, and where something else stands between the repetition and the layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from optimizer.capturing.outline import OutlineNode
from optimizer.diagnosing.base import Evidence, register_rule
from optimizer.diagnosing.graphs.graph_rule import GraphRule, Sighting
from optimizer.diagnosing.graphs.view import CASTS, COPIES, GraphView, at, sources

REPEATS = frozenset({"expand", "expand_as", "repeat", "repeat_interleave", "broadcast_to", "tile"})
RESHAPES = frozenset({"reshape", "flatten", "view", "unflatten"})
LEAST_TIMES = 4


@dataclass(frozen=True)
class _Repeated:
    """`width` of the layer's inputs are features that were repeated `times`."""

    layer: OutlineNode
    by: OutlineNode
    times: float
    width: int
    inputs: int

    @property
    def flops(self) -> int:
        return 2 * self.layer.elements * self.inputs

    @property
    def wasted_flops(self) -> float:
        return self.flops * self.width / self.inputs * (1 - 1 / self.times)


@register_rule
class UserBroadcast(GraphRule):
    name = "user_broadcast"
    graph_threshold = "a linear layer over features that were repeated 4 times or more (a proposal)"

    def look_at(self, graph: GraphView, evidence: Evidence) -> Sighting | None:
        found = [one for layer in graph.calls("linear") for one in _repeated(graph, layer)]
        if not found:
            return None
        layers = list({one.layer.name: one.layer for one in found}.values())
        repeating = list({one.by.name: one.by for one in found}.values())
        whole = sum({one.layer.name: one.flops for one in found}.values())
        wasted = sum(one.wasted_flops for one in found) / whole
        times = max(one.times for one in found)
        return Sighting(
            title=f"Features are repeated up to {times:.0f} times before a linear layer{at(sources(repeating))}",
            evidence={
                "layers": len(layers),
                "repeated_times": {one.by.name: round(one.times, 2) for one in found},
                "repeated_inputs": {one.layer.name: f"{one.width} of {one.inputs}" for one in found},
                "repeated_share_of_products": round(wasted, 4),
            },
            nodes=layers,
            sites=[*repeating, *layers],
            part=wasted,
            recovers=(0.5, 1.0),
            model=f"{wasted:.0%} of these layers' products are repetitions; computed once and added by broadcasting "
            "they give back half to all of that",
            steps=(
                "Split the layer's weight by its inputs: W [u, x] = W_u u + W_x x. Compute W_u u once for each user, "
                "and add it by broadcasting.",
                "Where many candidates share a user, hand the user's features over once, not once a candidate.",
                "On a GPU: kernels that broadcast inside (IKBO) read the user's side once.",
            ),
            structural="low",
        )


def _repeated(graph: GraphView, layer: OutlineNode) -> Iterator[_Repeated]:
    features = graph.first(layer)
    if features is None or not features.sizes or not features.sizes[-1]:
        return
    inputs = features.sizes[-1]
    joined = graph.up(features, lambda one: _keeps_features(graph, one))
    parts = graph.takes(joined) if joined.op == "cat" and _joins_features(joined) else [joined]
    for part in parts:
        node = graph.up(part, lambda one: _keeps_features(graph, one))
        source = graph.first(node)
        if node.op not in REPEATS or source is None or graph.is_constant(source) or not source.elements:
            continue
        times = node.elements / source.elements
        width = node.sizes[-1]
        if times >= LEAST_TIMES and width and width == source.sizes[-1] == part.sizes[-1]:
            yield _Repeated(layer, node, times, width, inputs)


def _keeps_features(graph: GraphView, node: OutlineNode) -> bool:
    """Whether it hands on what it is given, with the same last dimension."""
    source = graph.first(node)
    moves = node.op not in REPEATS and (node.view or node.op in COPIES | CASTS | RESHAPES)
    return moves and source is not None and source.sizes[-1:] == node.sizes[-1:] and source.elements == node.elements


def _joins_features(cat: OutlineNode) -> bool:
    dim = cat.given.get("dim", 0)
    return isinstance(dim, int) and dim in (-1, len(cat.sizes) - 1)
