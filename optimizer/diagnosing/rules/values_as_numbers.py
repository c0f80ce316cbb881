"""Values of tensors become Python numbers or sizes: the host waits for them, and compilers stop there.

Silent for sizes that are read from shapes. In a graph that has them all the same each one is named; where the capture
gives up, its own line is.
"""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.capturing.outline import OutlineNode
from optimizer.diagnosing.base import Evidence, register_rule
from optimizer.diagnosing.graphs.graph_rule import GraphRule, Sighting
from optimizer.diagnosing.graphs.refusals import refusal, told
from optimizer.diagnosing.graphs.view import GraphView, at, sources
from optimizer.result import Finding

READS = ("item", "_local_scalar_dense")


@register_rule
class ValuesAsNumbers(GraphRule):
    name = "values_as_numbers"
    graph_threshold = "one value that becomes a Python number or a size (torch.compile breaks the graph at each)"

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        yield from super().check(evidence)
        problem = refusal(evidence, "capturing:user:data-dependent-value")
        if problem is not None:
            yield told(self, problem, "The values of a tensor become Python numbers")

    def look_at(self, graph: GraphView, evidence: Evidence) -> Sighting | None:
        reads = graph.calls(*READS)
        sizing = [node for node in graph.calls() if _sizes_by_values(graph, node)]
        found = [*reads, *sizing]
        if not found:
            return None
        return Sighting(
            title=f"The values of tensors become Python numbers or sizes{at(sources(found))}",
            evidence={"numbers_read": len(reads), "sizes_by_values": len(sizing)},
            nodes=found,
            steps=(
                "Stay in tensors: index with tensors, and mask with torch.where in place of x[mask] and nonzero().",
                "Pad to a fixed length, and hand sizes that never change to __init__.",
            ),
            structural="low",
        )


def _sizes_by_values(graph: GraphView, node: OutlineNode) -> bool:
    """Whether the size of the result first depends on values here."""
    return None in node.sizes and not any(None in one.sizes for one in graph.takes(node))
