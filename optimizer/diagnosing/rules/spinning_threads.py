"""Threads go on using their cores after a call, waiting for the next. Silent below 0.3 ms and 5 % of a call."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.diagnosing.base import Evidence, Rule, register_rule
from optimizer.result import Finding

MIN_IDLE_CPU_MS, MIN_SHARE = 0.3, 0.05


@register_rule
class SpinningThreads(Rule):
    name = "spinning_threads"

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        profile = evidence.profile
        used_ms = profile.idle_cpu_ms_per_call if profile else None
        if profile is None or used_ms is None or used_ms < MIN_IDLE_CPU_MS:
            return
        call_ms = profile.unprofiled_ms or profile.total_ms
        if used_ms < MIN_SHARE * call_ms:
            return
        yield Finding(
            rule=self.name,
            severity="low",
            title=f"Threads spin for {used_ms:.1f} ms of CPU time after a call, waiting for the next",
            evidence={"idle_cpu_ms_per_call": round(used_ms, 3), "call_ms": round(call_ms, 3)},
            remedy="Where the host is shared let them sleep (thread_waiting: passive; ONNX Runtime: spinning false). "
            "Alone on its cores the service loses nothing by it.",
        )
