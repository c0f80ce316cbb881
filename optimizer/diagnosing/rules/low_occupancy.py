"""Kernels with fewer blocks than the GPU has multiprocessors. Silent where they take under 20 % of computing."""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.trace_rule import Claim, GpuRule, compute_ms, kernels

MIN_SHARE = 0.2
NOT_COMPUTING = ("communication", "memcpy", "memset")


@register_rule
class LowOccupancy(GpuRule):
    name = "low_occupancy"
    threshold = (
        "kernels with less than one block per multiprocessor take more than 20 % of the computing kernels' "
        "time (idea: the profiler plug-in's SM efficiency; a proposal)"
    )

    def look(self, rank: RankTrace) -> Claim | None:
        whole = compute_ms(rank)
        under = [row for row in rank.kernel_rows if row.kind not in NOT_COMPUTING and row.underfilled_ms]
        share = sum(row.underfilled_ms for row in under) / whole if whole else 0.0
        if share <= MIN_SHARE:
            return None
        takes = kernels(rank, lambda row: row.kind not in NOT_COMPUTING, time_ms=lambda row: row.underfilled_ms)
        worst = sorted(under, key=lambda row: -row.underfilled_ms)[:5]
        return Claim(
            title=f"{share:.0%} of the computing time in kernels that leave multiprocessors empty",
            evidence={
                "underfilled_share_of_compute": round(share, 4),
                "multiprocessors": rank.device.multiprocessors,
                "blocks_per_sm": {row.name[:120]: row.blocks_per_sm for row in worst},
            },
            takes=takes,
            recovers=(0.1, 0.5),
            model="work that fills the GPU takes a share of the time as large as the share it fills: 10 to 50 % here",
            steps=(
                "Raise the batch size, or run independent small layers as one batched product.",
                'Split the reduction of tall, thin products (split-K); smaller tiles: mode="max-autotune".',
            ),
        )
