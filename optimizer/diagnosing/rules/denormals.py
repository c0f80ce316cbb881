"""Floats below some 1e-38 are computed with, which the processor does slowly. Silent below a fifth of the time."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.diagnosing.base import Evidence, Rule, register_rule
from optimizer.result import Finding, PredictedGain

# Both were timed in one process, where nothing else differs; less may be a neighbour's doing.
MIN_GAIN, MUCH = 1.2, 2.0
MODEL = "a call on one thread was timed with and without: half of that gain to all of it on all threads"


@register_rule
class Denormals(Rule):
    name = "denormals"

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        gain = evidence.profile.denormals_gain if evidence.profile else None
        if gain is None or gain < MIN_GAIN:
            return
        yield Finding(
            rule=self.name,
            severity="high" if gain >= MUCH else "medium",
            title=f"A call takes {gain:.1f} times as long as with denormal floats taken as zero (on one thread)",
            evidence={"time_kept_over_flushed": round(gain, 3)},
            remedy="Flush them (denormals: flushed): a runtime step of the recipe. Look for weights and activations "
            "that decay towards zero.",
            mended_by=[{"runtime": {"denormals": "flushed"}}],
            gain=PredictedGain(low=round((1 + gain) / 2, 4), high=round(gain, 4), model=MODEL),
        )
