"""Compiled code falls into several regions, with Python between them. Silent with one region.

Of a model: what no graph can hold, with its line. Branches on values and values as numbers have rules of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.diagnosing.base import Evidence, register_rule
from optimizer.diagnosing.graphs.refusals import refusal, told
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.recompiles import compilations
from optimizer.diagnosing.traces.trace_rule import Claim, GpuRule, idle
from optimizer.result import Finding

UNCAPTURED = ("capturing:user:unsupported-operation", "capturing:user:not-exportable")
MIN_REGIONS = 3


@register_rule
class GraphBreaks(GpuRule):
    name = "graph_breaks"
    threshold = (
        "more than two compiled regions run in a step (torch.compile's own ids; separate models count as "
        "well: a proposal)"
    )

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        yield from super().check(evidence)
        problem = refusal(evidence, *UNCAPTURED)
        if problem is not None:
            yield told(
                self,
                problem,
                "The graph breaks: what runs there cannot be captured",
                steps=("Move what only serves tests, logs or checks out of forward.",),
            )

    def look(self, rank: RankTrace) -> Claim | None:
        frames = compilations(rank)
        if len(frames) < MIN_REGIONS:
            return None
        calls = sum(rank.regions.values()) / rank.per_step
        return Claim(
            title=f"Compiled code falls into {len(frames)} regions: {calls:.0f} calls a step, with Python between them",
            evidence={"regions": len(frames), "region_calls_per_step": round(calls, 1)},
            takes=idle(rank, "host_other"),
            recovers=(0.2, 0.8),
            model="idle time in which the host was outside of operations; one region leaves 20 to 80 % of it",
            steps=(
                "Find the breaks and their lines: TORCH_LOGS=graph_breaks, or torch.compile(fullgraph=True).",
                "Move prints, .item() and data-dependent branches out of the compiled code.",
            ),
        )
