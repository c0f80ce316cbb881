"""What holds a model or a job back: what `fuseworks diagnose` answers, and the `diagnose` run of a trace."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from optimizer.diagnosing.traces.comparing import TraceComparison
from optimizer.diagnosing.traces.document import Timeline
from optimizer.diagnosing.traces.stragglers import RankWait
from optimizer.profiling.document import Profile
from optimizer.result.base import Model, Problem
from optimizer.result.inspection import Conditions, Finding


class TracedRank(Model):
    """One trace that was read, and its own facts."""

    trace: str
    rank: int | None
    facts: dict[str, Any]
    timeline: Timeline | None = None


class Diagnosis(Model):
    """`facts`: figures with their units in the names. `problem`: why there is no diagnosis."""

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
