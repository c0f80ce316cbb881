"""Many small collectives in place of few large ones. Silent up to 50 a step, or where they are large."""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.trace_rule import Claim, GpuRule

MIN_PER_STEP, SMALL_BYTES = 50, 1 << 20
SUMS = ("all_reduce", "reduce_scatter", "all_gather", "broadcast")


@register_rule
class UnbucketedCollectives(GpuRule):
    name = "unbucketed_collectives"
    threshold = "more than 50 collectives a step of less than 1 MiB (a proposal; 404 seen)"

    def look(self, rank: RankTrace) -> Claim | None:
        small = [row for row in rank.collective_rows if row.kind in SUMS and row.bytes < SMALL_BYTES]
        calls = sum(row.calls for row in small)
        if calls / rank.per_step <= MIN_PER_STEP:
            return None
        told = [row for row in small if row.bytes]
        return Claim(
            title=f"{calls / rank.per_step:.0f} small collectives a step",
            evidence={
                "small_collectives_per_step": round(calls / rank.per_step, 1),
                "mean_bytes": round(sum(r.bytes * r.calls for r in told) / sum(r.calls for r in told))
                if told
                else None,
                "mean_us": round(sum(row.total_ms for row in small) / calls * 1000, 1),
            },
            takes={"exposed communication": sum(row.exposed_ms for row in small)},
            recovers=(0.5, 0.95),
            model="a collective of a few bytes costs its latency: in buckets half to 95 % of it is gone",
            steps=(
                "Let DDP bucket the gradients (bucket_cap_mb=25 or more) instead of reducing each parameter.",
                "Coalesce: torch.distributed.all_reduce_coalesced, or one flat tensor.",
            ),
        )
