"""The training waits for its DataLoader. Silent below 5 % of the steps."""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.trace_rule import Claim, GpuRule, idle

MIN_SHARE = 0.05


@register_rule
class DataLoading(GpuRule):
    name = "data_loading"
    threshold = "a DataLoader works for more than 5 % of the steps (PyTorch's profiler plug-in for TensorBoard)"

    def look(self, rank: RankTrace) -> Claim | None:
        share = rank.data_loading_ms / rank.steps_ms if rank.steps_ms else 0.0
        if share <= MIN_SHARE:
            return None
        return Claim(
            title=f"The DataLoader takes {share:.0%} of the steps; the GPU has nothing to do meanwhile",
            evidence={
                "dataloader_share": round(share, 4),
                "dataloader_ms": round(rank.data_loading_ms, 3),
                "gpu_idle_meanwhile_ms": round(rank.idle.data_loading_ms, 3),
                "steps": rank.steps,
            },
            takes=idle(rank, "data_loading"),
            recovers=(0.5, 1.0),
            model="the GPU's idle time while a DataLoader is at work; workers that keep up give back half to all of it",
            steps=(
                "Load in other processes: DataLoader(num_workers=4, persistent_workers=True, prefetch_factor=4).",
                "Set pin_memory=True and copy with .to(device, non_blocking=True).",
                "If it still shows, decode and augment beforehand or on the GPU.",
            ),
        )
