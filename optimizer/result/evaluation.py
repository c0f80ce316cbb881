"""A candidate, what the passes did to its graph, and what came of it. Performance only of what is correct."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from optimizer.result.base import EvaluationStatus, Model, Problem
from optimizer.result.verification import Verification
from optimizer.spec import Step


class Site(Model):
    """One place of the graph where a pass did something or refused to."""

    node: str
    source: str | None = Field(default=None, description="file:line of the user's code, when known")
    reason: str = Field(description="what was done, or why it was refused")


class Rewrite(Model):
    """What one pass did to one graph."""

    pass_: str = Field(alias="pass")
    options: dict[str, Any] = Field(default_factory=dict)
    applied: list[Site] = Field(default_factory=list)
    refused: list[Site] = Field(default_factory=list)
    numerics: Literal["exact", "reassociates"] = "exact"
    nodes_before: int
    nodes_after: int
    seconds: float


class Performance(Model):
    """Latency of one contender over all its processes. Times in milliseconds of one call."""

    median_ms: float
    mean_ms: float
    p90_ms: float
    p99_ms: float
    calls: int
    processes: int
    throughput_per_s: float = Field(description="samples (first dimension of the first input) a second, one caller")
    peak_memory_bytes: int | None = Field(default=None, description="RSS above the state after import")
    page_faults_per_call: float | None = None
    load_s: float | None = None
    compile_s: float | None = None
    artifact_bytes: int | None = None
    inference_precision: str | None = None
    screened: bool = Field(default=False, description="a cheap first measurement, not the judged one")


class Candidate(Model):
    """A plan: ordered steps. `name` is short and unique within the run."""

    name: str
    steps: list[Step]
    peer: bool = Field(default=False, description="an engine without our rewrites")
    why: str = Field(default="", description="what made the planner propose it")


class Evaluation(Model):
    """The outcome of one candidate. Performance only when it passed: no speed-up without correct numerics."""

    candidate: Candidate
    status: EvaluationStatus
    reason: str | None = None
    problem: Problem | None = None
    verification: Verification | None = None
    performance: Performance | None = None
    screened_speedup: float | None = Field(
        default=None, description="against the baseline in the screening; no verdict"
    )

    @model_validator(mode="after")
    def _performance_needs_correctness(self) -> Evaluation:
        if self.status != EvaluationStatus.PASSED and (
            self.performance is not None or self.screened_speedup is not None
        ):
            raise ValueError(f"a candidate that is {self.status} carries no performance")
        if self.status != EvaluationStatus.PASSED and not self.reason:
            raise ValueError(f"a candidate that is {self.status} needs a reason")
        return self
