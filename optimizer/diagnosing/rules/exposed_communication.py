"""Collectives that no computation covers. Silent where 70 % are covered."""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.trace_rule import LOW, Claim, GpuRule

MIN_EXPOSED = 0.3
MOST_NAMED = 5


@register_rule
class ExposedCommunication(GpuRule):
    name = "exposed_communication"
    threshold = "more than 30 % of the collectives' time not covered by other kernels (metric: HolisticTraceAnalysis)"

    def look(self, rank: RankTrace) -> Claim | None:
        if not rank.communication_ms or rank.exposed_ms < LOW * rank.span_ms:
            return None
        share = rank.exposed_ms / rank.communication_ms
        if share <= MIN_EXPOSED:
            return None
        worst = sorted(rank.collective_rows, key=lambda row: -row.exposed_ms)[:MOST_NAMED]
        return Claim(
            title=f"{share:.0%} of the communication is exposed: {rank.exposed_ms / rank.span_ms:.0%} of the time",
            evidence={
                "comm_exposed_share": round(share, 4),
                "comm_span_share": round(rank.exposed_ms / rank.span_ms, 4),
                "communication_ms": round(rank.communication_ms, 3),
                "exposed_by_collective_ms": {
                    f"{row.kind} of {row.bytes} bytes" if row.bytes else row.kind: round(row.exposed_ms, 3)
                    for row in worst
                },
            },
            takes={"exposed communication": rank.exposed_ms},
            recovers=(0.3, 0.8),
            model="the exposed time; overlap hides 30 to 80 % of it as far as there is computation to hide behind",
            steps=(
                "Let the backward pass overlap: DDP's gradient buckets (bucket_cap_mb), static_graph=True.",
                "Start collectives early (async_op=True) and wait for them where their result is used.",
                "Accumulate gradients (no_sync) or compress them where overlap is not enough.",
            ),
        )
