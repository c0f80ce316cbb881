"""What a finding's remedy was predicted to give, beside what was measured of the step of a plan that it became."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from optimizer.result.base import Model
from optimizer.result.comparison import Interval
from optimizer.result.evaluation import Candidate
from optimizer.result.inspection import PredictedGain

# The strongest first. The first two have an interval over pairs of fresh processes; the others judge nothing.
GainEvidence = Literal["judgement", "ablation", "finalists", "screening"]


class Finalist(Model):
    """A plan that was measured beside those that lay near the leader, in one or two sets of fresh processes."""

    candidate: Candidate
    speedup: float = Field(description="against the baseline; no verdict")


class RealisedGain(Model):
    """Time without the step / time with it."""

    gain: float
    interval: Interval | None = Field(default=None, description="null: the evidence is too weak for one")
    evidence: GainEvidence = Field(
        description="judgement: the original in other settings beside itself; ablation: the winner, or a larger plan, "
        "without the step; finalists, screening: two plans that differ in it, and neither was judged for it"
    )
    measured_on: str = Field(description="the plan that has the step")


class CheckedGain(Model):
    """One finding whose remedy a plan can hold. What was measured is on the plan's engine, with its other steps; what
    was predicted is of the original."""

    rule: str
    remedy: str = Field(description="the pass or setting: `pass NAME`, `setting NAME`; several joined by ` + `")
    mended_by: list[dict[str, Any]]
    predicted: PredictedGain
    realised: RealisedGain | None = None
    not_realised_because: str = Field(default="", description="why nothing was measured of it")
