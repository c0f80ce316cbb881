"""The allocator gives memory back after every call and faults it in again. Silent below 64 faults a call."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.diagnosing.base import Evidence, Rule, register_rule
from optimizer.result import Finding, PredictedGain, Profile

# A fault on a 4 KiB page costs some 0.25 us of kernel time, and clearing the page as much again; 64 are about 30 us.
MIN_FAULTS_PER_CALL = 64
COST_PER_FAULT_US = 0.5
# What one costs with what it leaves in caches and TLBs, at least and at most.
COSTS_US, MOST_SAVED = (0.25, 1.5), 0.95
MODEL = "0.25 to 1.5 us a fault that does not happen, of a call without the profiler"
MUCH, LITTLE = 0.1, 0.01  # of the time


@register_rule
class PageFaults(Rule):
    name = "page_faults"

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        profile = evidence.profile
        faults = profile.page_faults_per_call if profile else None
        if profile is None or faults is None or faults < MIN_FAULTS_PER_CALL:
            return
        cost_ms = faults * COST_PER_FAULT_US / 1000
        share = cost_ms / profile.total_ms if profile.total_ms else 0.0
        yield Finding(
            rule=self.name,
            severity="high" if share > MUCH else "medium" if share >= LITTLE else "low",
            title=f"{faults:,.0f} page faults a call: malloc returns memory to the system and takes it again",
            evidence={"page_faults_per_call": faults, "predicted_cost_ms": round(cost_ms, 3)},
            remedy="Keep freed memory (allocator: glibc-no-trim) and ask for huge pages: a runtime step of the recipe.",
            mended_by=[{"runtime": {"allocator": "glibc-no-trim", "huge_pages": True}}],
            cost_ms=round(cost_ms, 4),
            cost_share=round(min(share, 1.0), 4),
            gain=_gain(profile, faults),
        )


def _gain(profile: Profile, faults: float) -> PredictedGain | None:
    call_ms = profile.unprofiled_ms or profile.total_ms
    if not call_ms:
        return None
    low, high = (1 / (1 - min(faults * cost / 1000 / call_ms, MOST_SAVED)) for cost in COSTS_US)
    return PredictedGain(low=round(low, 4), high=round(high, 4), model=MODEL)
