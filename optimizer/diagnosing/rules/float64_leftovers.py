"""Kernels in double precision, which GPUs for learning have little of. Silent under 1 % of computing.

In a graph: operations in float64, with the line where they begin. Silent for single numbers.
"""

from __future__ import annotations

from optimizer.capturing.outline import OutlineNode
from optimizer.diagnosing.base import Evidence, register_rule
from optimizer.diagnosing.graphs.graph_rule import GraphAndTraceRule, Sighting
from optimizer.diagnosing.graphs.view import GraphView, at, counted, sources
from optimizer.diagnosing.traces.document import KernelRow, RankTrace
from optimizer.diagnosing.traces.trace_rule import Claim, compute_share, costliest, kernels

MIN_SHARE = 0.01


@register_rule
class Float64Leftovers(GraphAndTraceRule):
    name = "float64_leftovers"
    threshold = "kernels in float64 take more than 1 % of the computing kernels' time (a proposal)"
    graph_threshold = "one operation that gives more than one number in float64 (structure alone: a proposal)"

    def look_at(self, graph: GraphView, evidence: Evidence) -> Sighting | None:
        doubles = [node for node in graph.calls() if _double(node) and not node.view]
        if not doubles:
            return None
        begins = [node for node in doubles if not any(_double(one) for one in graph.takes(node))]
        given = [one for one in graph.nodes if one.kind != "call" and _double(one) and graph.users(one)]
        began_by = [f"{one.kind} {one.name}" for one in given] + [f"{node.op} {node.name}" for node in begins]
        first = sources(begins) or sources(user for one in given for user in graph.users(one))
        return Sighting(
            title=f"{counted(len(doubles), 'operation computes', 'operations compute')} in float64{at(first)}",
            evidence={
                "operations": len(doubles),
                "begins_with": began_by[:8],
                "begins_at": first,
                "bytes": sum(node.bytes for node in doubles),
            },
            nodes=doubles,
            recovers=(0.3, 0.6),
            model="float32 is half the bytes and twice the numbers an instruction: 30 to 60 % of these operations",
            steps=(
                "Look for numpy arrays and Python floats that became tensors: torch.as_tensor(x, dtype=torch.float32).",
                "Where the digits are needed (sums over much), keep that one operation in float64 and cast its result.",
            ),
            structural="medium",
            passes=("remove_noops",),
        )

    def look(self, rank: RankTrace) -> Claim | None:
        share = compute_share(rank, _is_double)
        if share <= MIN_SHARE:
            return None
        calls = sorted(rank.doubles.items(), key=lambda one: -one[1])[:5]
        return Claim(
            title=f"Double precision takes {share:.1%} of the computing time",
            evidence={
                "float64_share_of_compute": round(share, 4),
                "operations_with_float64": dict(calls),
                "kernels_ms": costliest(rank, _is_double),
            },
            takes=kernels(rank, _is_double),
            recovers=(0.5, 0.97),
            model="float32 has 2 (A100) to 64 (consumer GPUs) times the peak and half the bytes",
            steps=(
                "Look for numpy arrays and Python floats that became tensors: torch.as_tensor(x, dtype=torch.float32).",
                "Keep double precision for accumulated metrics only, and collect them less often.",
            ),
        )


def _is_double(row: KernelRow) -> bool:
    return "double" in row.marks


def _double(node: OutlineNode) -> bool:
    return node.dtype in ("float64", "complex128") and node.elements > 1
