"""The GPU is idle for most of the time. What the other rules explain of it is theirs; this one claims only the rest."""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.trace_rule import Claim, GpuRule, severity

MIN_BUSY = 0.5


@register_rule
class LowGpuUse(GpuRule):
    name = "low_gpu_use"
    threshold = "a GPU is busy for less than 50 % of the span (PyTorch's profiler plug-in for TensorBoard)"

    def look(self, rank: RankTrace) -> Claim | None:
        busy = rank.busy_ms / rank.span_ms
        if busy >= MIN_BUSY:
            return None
        causes = {name: ms for name, ms in rank.idle.model_dump().items() if ms > 0}
        return Claim(
            title=f"The GPU is busy for {busy:.0%} of the time only",
            evidence={
                "gpu_busy_share": round(busy, 4),
                "idle_ms": round(rank.idle.total_ms(), 3),
                **{f"idle_{name}": round(ms, 3) for name, ms in causes.items()},
            },
            severity=severity(1 - busy),
            steps=(
                "Look at the findings that name a cause of the idle time first.",
                "Raise the batch size as far as memory and accuracy allow.",
                "Where work waits in the queue, look at what it waits for: other ranks, other streams, a CUDA graph.",
            ),
        )
