"""A diagnosis rule: from the facts of a run to findings, each with evidence and a remedy. Register where you define."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from kernels.registry import Registry
from optimizer.capturing.outline import Outline
from optimizer.capturing.samples import Samples
from optimizer.diagnosing.correcting import Calibration, packaged
from optimizer.diagnosing.graphs.counting import count
from optimizer.diagnosing.graphs.view import GraphView
from optimizer.diagnosing.remedies import remedy_of
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.result import Finding, PredictedGain, Problem, Profile, Rewrite
from optimizer.spec import Workload


@dataclass(frozen=True)
class Evidence:
    """What rules may look at. `traces`: of one job, a rank each; then there is no profile and there are no rewrites.
    `outline`: the captured graph; `problem`: why there is none, where the capture gave up."""

    profile: Profile | None
    rewrites: Sequence[Rewrite]
    dynamic_batch: bool
    notes: Sequence[str] = ()
    traces: Sequence[RankTrace] = ()
    outline: Outline | None = None
    workload: Workload | None = None
    samples: Samples | None = None
    problem: Problem | None = None
    target: str = "cpu"

    @classmethod
    def of_traces(cls, traces: Sequence[RankTrace]) -> Evidence:
        return cls(profile=None, rewrites=(), dynamic_batch=True, traces=traces)

    @classmethod
    def of_problem(cls, problem: Problem) -> Evidence:
        return cls(profile=None, rewrites=(), dynamic_batch=True, problem=problem)

    @cached_property
    def graph(self) -> GraphView | None:
        return GraphView(self.outline, self.profile) if self.outline is not None else None


class Rule(ABC):
    """One cause. `check` yields findings; none when the cause is not there."""

    name: str

    @abstractmethod
    def check(self, evidence: Evidence) -> Iterator[Finding]: ...


RULES: Registry[Rule] = Registry("rule", "optimizer.diagnosing.rules")
register_rule = RULES.register
_SEVERITY = ("high", "medium", "low", "info")


class Diagnosed(NamedTuple):
    """`recoverable`: least and most of the whole time that mending all of it gives back; None where none was timed."""

    findings: list[Finding]
    recoverable: tuple[float, float] | None


def diagnose(evidence: Evidence) -> list[Finding]:
    return diagnosed(evidence).findings


def diagnosed(evidence: Evidence) -> Diagnosed:
    """Every rule's findings: the most severe first, and of those the ones that give back most."""
    found = [finding for rule in RULES for finding in rule.check(evidence)]
    findings = [finding for finding in found if not _told_by_another(finding, found)]
    calibration = packaged()
    if calibration is not None and evidence.target.partition(":")[0] == calibration.target:
        correct(findings, calibration)
    recoverable = count(findings, evidence.graph)
    findings.sort(key=lambda finding: (_SEVERITY.index(finding.severity), -(finding.counted_share or 0.0)))
    return Diagnosed(findings, recoverable)


def correct(findings: Sequence[Finding], calibration: Calibration) -> None:
    """Predictions of what a plan can do: those of other remedies are never measured, and stay as they were worked
    out."""
    for finding in findings:
        gain = finding.gain
        if gain is None or not finding.mended_by:
            continue
        key = key_of(finding)
        low, high = calibration.corrected(key, gain.low, gain.high)
        finding.gain = PredictedGain(
            low=round(low, 4),
            high=round(high, 4),
            model=f"{gain.model}; {calibration.in_words(key)}",
            confidence=calibration.confidence,
            uncorrected=(gain.low, gain.high),
        )


def key_of(finding: Finding) -> str:
    """Under which records of it are kept: a rule's predictions of one remedy."""
    return f"{finding.rule}: {remedy_of(finding.mended_by)}"


def _told_by_another(finding: Finding, findings: Sequence[Finding]) -> bool:
    """What a pass would rewrite, where a rule of its own says more of every one of these places."""
    places = finding.evidence.get("sites")
    if places is None:
        return False
    return any(one.evidence.get("places_by_pass", {}).get(finding.evidence["pass"], 0) >= places for one in findings)
