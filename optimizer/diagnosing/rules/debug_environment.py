"""Launches wait for their kernels: CUDA_LAUNCH_BLOCKING=1, or a debugger. Silent where they return at once."""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.trace_rule import Claim, GpuRule, idle

MIN_SHARE, MIN_KERNELS = 0.9, 20


@register_rule
class DebugEnvironment(GpuRule):
    name = "debug_environment"
    threshold = (
        "more than 90 % of the launches return only after their kernel has ended (CUDA's documentation of "
        "CUDA_LAUNCH_BLOCKING)"
    )

    def look(self, rank: RankTrace) -> Claim | None:
        share = rank.launch_blocking_share
        if share is None or share <= MIN_SHARE or rank.kernels < MIN_KERNELS:
            return None
        return Claim(
            title="Every launch waits for its kernel: CUDA_LAUNCH_BLOCKING is set, or a debugger is attached",
            evidence={"launch_blocking_share": round(share, 4), "kernels": rank.kernels},
            takes=idle(rank, "launching", "host_operations", "host_other", "synchronization"),
            recovers=(0.6, 0.95),
            model="idle time between kernels; launches that run ahead give back 60 to 95 % of it",
            steps=(
                "Unset CUDA_LAUNCH_BLOCKING (AMD_SERIALIZE_KERNEL and HIP_LAUNCH_BLOCKING on ROCm).",
                "Leave out torch.autograd.set_detect_anomaly(True) beyond debugging.",
            ),
        )
