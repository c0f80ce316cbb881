"""Collectives take much of the step, covered or not. Silent up to 10 % of it."""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.trace_rule import Claim, GpuRule

MIN_SHARE = 0.10


@register_rule
class CommunicationHeavy(GpuRule):
    name = "communication_heavy"
    threshold = "communication takes more than 10 % of the span (PyTorch's profiler plug-in for TensorBoard)"

    def look(self, rank: RankTrace) -> Claim | None:
        share = rank.communication_ms / rank.span_ms
        if share <= MIN_SHARE:
            return None
        kinds: dict[str, float] = {}
        for row in rank.collective_rows:
            kinds[row.kind] = kinds.get(row.kind, 0.0) + row.total_ms
        return Claim(
            title=f"Communication takes {share:.0%} of the time, {rank.exposed_ms / rank.span_ms:.0%} of it uncovered",
            evidence={
                "communication_share": round(share, 4),
                "by_collective_ms": {kind: round(ms, 3) for kind, ms in sorted(kinds.items(), key=lambda one: -one[1])},
                "bytes_per_step": round(sum(row.bytes * row.calls for row in rank.collective_rows) / rank.per_step),
            },
            takes={"exposed communication": rank.exposed_ms},
            recovers=(0.1, 0.5),
            model="half the bytes take half the time; how much of it was exposed is what can be gained: 10 to 50 %",
            steps=(
                "Send less: gradients in bfloat16 (DDP's compression hooks), accumulation over several steps.",
                "Shard so that more stays within a node; a larger batch per GPU communicates as much for more work.",
            ),
        )
