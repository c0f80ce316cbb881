"""The GPU's memory is nearly full: a larger batch does not fit, and the allocator must free and ask again."""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.trace_rule import Claim, TraceRule

MIN_SHARE = 0.9


@register_rule
class MemoryNearLimit(TraceRule):
    name = "memory_near_limit"
    threshold = "more than 90 % of the GPU's memory is reserved (PyTorch's profiler plug-in for TensorBoard)"

    def look(self, rank: RankTrace) -> Claim | None:
        reserved, total = rank.peak_reserved_bytes, rank.device.memory_bytes
        if not reserved or not total or reserved <= MIN_SHARE * total:
            return None
        return Claim(
            title=f"{reserved / total:.0%} of the GPU's memory is taken",
            evidence={
                "peak_reserved_bytes": reserved,
                "peak_allocated_bytes": rank.peak_allocated_bytes,
                "device_memory_bytes": total,
            },
            severity="medium",
            steps=(
                "Checkpoint activations (torch.utils.checkpoint) of the layers that keep most.",
                "Train in mixed precision, and shard the optimizer's state (FSDP, ZeroRedundancyOptimizer).",
            ),
        )
