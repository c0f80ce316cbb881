"""Python's garbage collector runs within the steps. Silent under 0.5 % of the span, or where Python is not traced."""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.trace_rule import LOW, Claim, GpuRule, idle


@register_rule
class GarbageCollection(GpuRule):
    name = "garbage_collection"
    threshold = "gc.collect takes more than 0.5 % of the span (idea: Ascend's msprof-analyze; a proposal)"

    def look(self, rank: RankTrace) -> Claim | None:
        if rank.collecting_ms < LOW * rank.span_ms:
            return None
        behind = rank.idle.host_other_ms + rank.idle.host_operations_ms
        part = min(1.0, rank.collecting_ms / behind) if behind else 0.0
        return Claim(
            title=f"The garbage collector takes {rank.collecting_ms:,.1f} ms of the trace",
            evidence={"collecting_ms": round(rank.collecting_ms, 3)},
            takes={pool: ms * part for pool, ms in idle(rank, "host_other", "host_operations").items()},
            recovers=(0.7, 1.0),
            model="idle time that collecting can explain; collected between epochs it costs nothing in a step",
            steps=(
                "Freeze what lives for ever after the first step: gc.collect(); gc.freeze().",
                "Collect by hand between epochs: gc.disable() in the loop.",
            ),
        )
