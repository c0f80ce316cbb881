"""LayerNorm or RMSNorm as operations of its own: mean, squares, root, product. Silent for norms over other dimensions.

A norm over the batch, and dividing by a vector's length, have no one operation that takes their place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from optimizer.capturing.outline import OutlineNode
from optimizer.diagnosing.base import Evidence, register_rule
from optimizer.diagnosing.graphs.graph_rule import GraphRule, Sighting
from optimizer.diagnosing.graphs.view import CASTS, GraphView, at, moved_bytes, sources

SHIFTS = frozenset({"add", "clamp", "clamp_min", "maximum", *CASTS})
ROOTS, SPREADS, MEANS = ("rsqrt", "sqrt", "pow"), ("std", "var"), ("mean",)
MOST_STEPS = 4


@dataclass(frozen=True)
class _Norm:
    """`root`: the node of the square root, or of the standard deviation."""

    root: OutlineNode
    nodes: list[OutlineNode]


@register_rule
class WrittenOutNorms(GraphRule):
    name = "written_out_norms"
    graph_threshold = "one norm over the last dimensions that is no single operation (structure alone: a proposal)"

    def look_at(self, graph: GraphView, evidence: Evidence) -> Sighting | None:
        norms = list(_norms(graph))
        if not norms:
            return None
        nodes = list({node.name: node for norm in norms for node in norm.nodes}.values())
        now = moved_bytes(graph, nodes)
        # fused: what is normed is read once, and the result is written once
        fused = 2 * sum(max(node.bytes for node in norm.nodes) for norm in norms)
        saved = max(0.0, 1 - fused / now) if now else 0.0
        lines = sources(norm.root for norm in norms)
        many = "A norm is" if len(norms) == 1 else f"{len(norms)} norms are"
        return Sighting(
            title=f"{many} written out by hand{at(lines)}",
            evidence={
                "norms": len(norms),
                "operations": sum(not node.view for node in nodes),
                "bytes_moved": now,
                "bytes_moved_fused": fused,
            },
            nodes=nodes,
            sites=nodes,
            recovers=(saved / 2, saved),
            model=f"bytes: fused it moves {fused:,} in place of {now:,}; half of that saving, to all of it",
            steps=(
                "Call torch.nn.functional.layer_norm or rms_norm (or the modules nn.LayerNorm, nn.RMSNorm): one "
                "operation that every engine knows.",
            ),
            structural="low",
            passes=("fuse_operations",),
        )


def _norms(graph: GraphView) -> Iterator[_Norm]:
    for anchor in graph.calls(*ROOTS, "std"):
        if anchor.op == "pow" and anchor.given.get("exponent") not in (0.5, -0.5):
            continue
        spread = anchor if anchor.op == "std" else _spread(graph, anchor)
        read = _centred_or_squared(graph, spread) if spread is not None else None
        if spread is None or read is None or not _over_the_last(graph, spread):
            continue
        source, inside = read
        scaled = _scaled(graph, anchor, source)
        if scaled:
            yield _Norm(anchor, [*inside, *_between(graph, anchor, spread), *scaled, *_affine(graph, scaled[-1])])


def _spread(graph: GraphView, root: OutlineNode) -> OutlineNode | None:
    """The mean of squares or the variance below the root."""
    found = graph.first(root)
    found = graph.up(found, lambda node: node.op in SHIFTS) if found is not None else None
    return found if found is not None and found.op in (*MEANS, *SPREADS) else None


def _centred_or_squared(graph: GraphView, spread: OutlineNode) -> tuple[OutlineNode, list[OutlineNode]] | None:
    """(what is normed, the nodes from it to the spread)."""
    below = graph.first(spread)
    if below is None:
        return None
    inside = [spread]
    if spread.op in MEANS:
        squares = below.op == "square" or (below.op == "pow" and below.given.get("exponent") == 2)
        if not squares and not (below.op == "mul" and len(below.takes) == 2 and len(set(below.takes)) == 1):
            return None
        inside.insert(0, below)
        source = graph.first(below)
    else:
        source = below
    if source is None:
        return None
    if source.op == "sub":
        parts = graph.takes(source)
        mean = graph.up(parts[1], lambda node: node.op in CASTS or node.view) if len(parts) == 2 else None
        if mean is not None and mean.op in MEANS:
            return source, [mean, source, *inside]
    return source, inside


def _over_the_last(graph: GraphView, spread: OutlineNode) -> bool:
    source = graph.first(spread)
    dims = spread.given.get("dim")
    dims = [dims] if isinstance(dims, int) else dims
    if source is None or not isinstance(dims, list) or not all(isinstance(dim, int) for dim in dims):
        return False
    rank = len(source.sizes)
    return sorted(dim % rank for dim in dims) == list(range(rank - len(dims), rank)) if rank else False


def _between(graph: GraphView, anchor: OutlineNode, spread: OutlineNode) -> list[OutlineNode]:
    found, node = [], anchor
    while node is not spread:
        found.append(node)
        before = graph.first(node)
        assert before is not None, "the spread lies above the anchor"
        node = before
    return found[::-1]


def _affine(graph: GraphView, scaled: OutlineNode) -> list[OutlineNode]:
    """The product with a weight, and the sum with a bias, that nothing else stands between."""
    found, node = list[OutlineNode](), scaled
    for _ in range(MOST_STEPS):
        users = graph.users(node)
        if len(users) != 1 or not (users[0].op in CASTS or _with_a_weight(graph, users[0])):
            break
        found.append(users[0])
        node = users[0]
    return found


def _with_a_weight(graph: GraphView, node: OutlineNode) -> bool:
    return node.op in ("mul", "add") and any(graph.is_constant(one) for one in graph.takes(node))


def _scaled(graph: GraphView, anchor: OutlineNode, source: OutlineNode) -> list[OutlineNode]:
    """The nodes from the root to the product or quotient with what is normed; empty where there is none."""
    node, path = anchor, list[OutlineNode]()
    for _ in range(MOST_STEPS):
        scaled = next((user for user in graph.users(node) if user.op in ("mul", "div")), None)
        if scaled is not None and scaled.elements == source.elements and source.elements > node.elements:
            centring = [one for one in graph.takes(scaled) if one.op == "sub" and one.elements == source.elements]
            return [*path, *centring, scaled]
        following = next((user for user in graph.users(node) if user.op in (*SHIFTS, "reciprocal", "unsqueeze")), None)
        if following is None:
            return []
        path.append(following)
        node = following
    return []
