"""What `fuseworks diagnose` answers: facts and findings of a model or of the traces of one job."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from optimizer.diagnosing.traces.comparing import TraceComparison
from optimizer.diagnosing.traces.stragglers import RankWait
from optimizer.result import Conditions, Finding, Problem, Profile

NOTHING = "Nothing worth doing: no cause that the rules know takes much of the time."


class TracedRank(BaseModel):
    """One trace that was read, and its own facts."""

    model_config = ConfigDict(extra="forbid")

    trace: str
    rank: int | None
    facts: dict[str, Any]


class Diagnosis(BaseModel):
    """`facts`: figures with their units in the names. `problem`: why there is no diagnosis."""

    model_config = ConfigDict(extra="forbid")

    of: list[str]
    summary: str = ""
    facts: dict[str, Any] = Field(default_factory=dict)
    findings: list[Finding] = Field(default_factory=list)
    recoverable_share: tuple[float, float] | None = Field(
        default=None, description="least and most of the whole time that all findings together give back"
    )
    ranks: list[TracedRank] = Field(default_factory=list)
    waits: list[RankWait] = Field(default_factory=list, description="of several ranks of one job")
    comparison: TraceComparison | None = None
    profile: Profile | None = Field(default=None, description="of a model: where a call of it spends time and memory")
    notes: list[str] = Field(default_factory=list)
    sandbox: str = ""
    conditions: Conditions | None = Field(default=None, description="of a model: what it was measured under")
    problem: Problem | None = None
