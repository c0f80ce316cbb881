"""Batch norms that synchronize over ranks, each with a collective of a few bytes. Silent up to 20 a step."""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.trace_rule import Claim, GpuRule

MIN_PER_STEP, SMALL_BYTES = 20, 1 << 16
SYNCHRONIZED = ("SyncBatchNorm", "aten::batch_norm_gather_stats_with_counts")


@register_rule
class SyncBatchNorm(GpuRule):
    name = "sync_batch_norm"
    threshold = "more than 20 synchronized batch norms a step (Ascend's msprof-analyze)"

    def look(self, rank: RankTrace) -> Claim | None:
        per_step = max(rank.calls_of(name) for name in SYNCHRONIZED) / rank.per_step
        if per_step <= MIN_PER_STEP:
            return None
        small = [
            row for row in rank.collective_rows if row.bytes < SMALL_BYTES and row.kind in ("all_gather", "all_reduce")
        ]
        return Claim(
            title=f"{per_step:.0f} batch norms a step wait for all ranks",
            evidence={
                "synchronized_batch_norms_per_step": round(per_step, 1),
                "small_collectives_per_step": round(sum(row.calls for row in small) / rank.per_step, 1),
            },
            takes={"exposed communication": sum(row.exposed_ms for row in small)},
            recovers=(0.6, 1.0),
            model="their collectives' exposed time; plain batch norm has none",
            steps=(
                "Use plain BatchNorm where a rank's batch is large enough (32 and more).",
                "Or GroupNorm or LayerNorm, which need no statistics of other ranks.",
            ),
        )
