"""The allocator holds memory that it cannot give out, or asks the driver for memory in every step."""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.trace_rule import LOW, Claim, TraceRule

MIN_SHARE, MIN_BYTES = 0.2, 1 << 28
ASKS = ("cudaMalloc", "cudaFree", "hipMalloc", "hipFree")


@register_rule
class MemoryFragmentation(TraceRule):
    name = "memory_fragmentation"
    threshold = (
        "more than 20 % of the reserved memory unused at the peak, or cudaMalloc and cudaFree in every step "
        "(a proposal)"
    )

    def look(self, rank: RankTrace) -> Claim | None:
        rows = [row for row in rank.call_rows if row.name in ASKS]
        calls, ms = sum(row.calls for row in rows) / rank.per_step, sum(row.total_ms for row in rows)
        held, given = rank.reserved_at_peak_bytes or 0, rank.peak_allocated_bytes or 0
        unused = held - given
        asks = bool(rank.steps) and calls >= 1 and ms >= LOW * rank.span_ms
        if not asks and not (unused > MIN_BYTES and unused > MIN_SHARE * held):
            return None
        share = unused / held if held else 0.0
        return Claim(
            title=f"{calls:.0f} calls a step ask the driver for memory"
            if asks
            else f"{share:.0%} of the memory is split up",
            evidence={
                "driver_calls_per_step": round(calls, 2),
                "driver_ms": round(ms, 3),
                "unused_share_at_peak": round(share, 4) if held else None,
                "reserved_at_peak_bytes": rank.reserved_at_peak_bytes,
                "peak_allocated_bytes": rank.peak_allocated_bytes,
            },
            takes={"idle: host_operations": min(ms, rank.idle.host_operations_ms)} if asks else {},
            recovers=(0.6, 1.0),
            model="the idle time that these calls can explain; an allocator that keeps its memory does not make them",
            severity=None if asks else "low",
            steps=(
                "Set PYTORCH_ALLOC_CONF=expandable_segments:True.",
                "Keep shapes the same from step to step, or pad them to a few sizes.",
                "Leave out torch.cuda.empty_cache() in the loop.",
            ),
        )
