"""Fewer threads are as fast: the others cost more in waiting than they bring. Silent where each thread gains."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.diagnosing.base import Evidence, Rule, register_rule
from optimizer.result import Finding, PredictedGain

AS_FAST = 1.02  # within what a few calls in one process can tell
OFF_BY = 1.05
MODEL = "calls of one process on either number of threads were timed: their quotient, 5 % less to 5 % more"


@register_rule
class IdleThreads(Rule):
    name = "idle_threads"

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        times_ms = evidence.profile.threads_ms if evidence.profile else {}
        if len(times_ms) < 2:
            return
        most = max(times_ms)
        fewer = [count for count in times_ms if count < most and times_ms[count] <= AS_FAST * times_ms[most]]
        if not fewer:
            return
        best = min(fewer, key=lambda count: times_ms[count])
        gain = times_ms[most] / times_ms[best]
        yield Finding(
            rule=self.name,
            severity="medium",
            title=f"{best} {'thread is' if best == 1 else 'threads are'} as fast as {most} in the original",
            evidence={"call_ms_by_threads": {count: round(ms, 4) for count, ms in sorted(times_ms.items())}},
            remedy="Serve with fewer threads (threads: a runtime step of the recipe), and more processes on the cores "
            "that are left. Where the policy leaves the number open, others are tried on the best candidate.",
            mended_by=[{"runtime": {"threads": best}}],
            gain=PredictedGain(low=round(gain / OFF_BY, 4), high=round(gain * OFF_BY, 4), model=MODEL),
        )
