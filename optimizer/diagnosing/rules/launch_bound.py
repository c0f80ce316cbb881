"""Many short kernels, and the host cannot launch them fast enough. Silent where kernels are long or the GPU is busy."""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.trace_rule import Claim, GpuRule, idle

MIN_SHORT, MIN_IDLE = 0.5, 0.2


@register_rule
class LaunchBound(GpuRule):
    name = "launch_bound"
    threshold = "more than 50 % of the kernels under 10 us and the GPU idle for more than 20 % (HolisticTraceAnalysis)"

    def look(self, rank: RankTrace) -> Claim | None:
        short, idle_share = rank.kernels_under_10us / rank.kernels, 1 - rank.busy_ms / rank.span_ms
        if short <= MIN_SHORT or idle_share <= MIN_IDLE:
            return None
        return Claim(
            title=f"{short:.0%} of the kernels take less than 10 us: the GPU waits for the next launch",
            evidence={
                "kernels_under_10us_share": round(short, 4),
                "gpu_idle_share": round(idle_share, 4),
                "kernels_per_step": round(rank.kernels / rank.per_step, 1),
                "launch_delay_us": rank.launch_delay_us,
                "idle_launching_ms": round(rank.idle.launching_ms, 3),
                "idle_host_operations_ms": round(rank.idle.host_operations_ms, 3),
            },
            takes=idle(rank, "launching", "host_operations"),
            recovers=(0.5, 0.9),
            model="idle time in which the host was in operations or launches; CUDA graphs leave 10 % to half of it",
            steps=(
                "Fuse: torch.compile(model), and fused or foreach optimizers.",
                'Replay instead of launching: torch.compile(mode="reduce-overhead") or torch.cuda.graphs.',
                "Raise the batch size: the same launches then carry more work.",
            ),
        )
