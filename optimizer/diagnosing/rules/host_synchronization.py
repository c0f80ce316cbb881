"""The host waits for the GPU within a step, and the GPU then for the host. Silent up to 10 waits that cost little."""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.trace_rule import LOW, Claim, GpuRule, idle, sources

MIN_PER_STEP = 10
READ_BACK = (
    "aten::item",
    "aten::_local_scalar_dense",
    "aten::nonzero",
    "aten::unique",
    "aten::_unique2",
    "aten::equal",
)


@register_rule
class HostSynchronization(GpuRule):
    name = "host_synchronization"
    threshold = "more than 10 calls a step that wait for the GPU (Ascend's msprof-analyze)"

    def look(self, rank: RankTrace) -> Claim | None:
        waits = [row for row in rank.call_rows if row.blocking_calls]
        per_step = sum(row.blocking_calls for row in waits) / rank.per_step
        read_back = {name: count / rank.per_step for name in READ_BACK if (count := rank.calls_of(name))}
        asked = per_step > MIN_PER_STEP or sum(read_back.values()) > MIN_PER_STEP
        if not asked and rank.idle.synchronization_ms < LOW * rank.span_ms:
            return None
        return Claim(
            title=f"The host waits for the GPU {per_step:.0f} times a step",
            evidence={
                "synchronizations_per_step": round(per_step, 2),
                "waiting_ms_per_step": round(sum(row.blocking_ms for row in waits) / rank.per_step, 3),
                "gpu_idle_after_it_ms": round(rank.idle.synchronization_ms, 3),
                "sources": sources(rank, *READ_BACK),
                "read_back_per_step": {name: round(count, 2) for name, count in read_back.items()},
                "calls": {row.name: row.blocking_calls for row in waits[:10]},
            },
            takes=idle(rank, "synchronization"),
            recovers=(0.5, 1.0),
            model="idle time after the host had waited for the GPU; without the wait half to all of it is gone",
            steps=(
                "Keep values on the GPU: no .item(), .tolist(), .cpu() or `if tensor:` within a step.",
                "Collect metrics on the GPU and read them every hundred steps.",
                "Avoid shapes that depend on data (nonzero, unique, boolean indexing), or pass sizes from the host.",
            ),
        )
