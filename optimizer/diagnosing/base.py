"""A diagnosis rule: from the facts of a run to findings, each with evidence and a remedy. Register where you define."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernels.registry import Registry
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.result import Finding, Profile, Rewrite


@dataclass(frozen=True)
class Evidence:
    """What rules may look at. `traces`: of one job, a rank each; then there is no profile and there are no rewrites."""

    profile: Profile | None
    rewrites: Sequence[Rewrite]
    dynamic_batch: bool
    notes: Sequence[str] = ()
    traces: Sequence[RankTrace] = ()

    @classmethod
    def of_traces(cls, traces: Sequence[RankTrace]) -> Evidence:
        return cls(profile=None, rewrites=(), dynamic_batch=True, traces=traces)


class Rule(ABC):
    """One cause. `check` yields findings; none when the cause is not there."""

    name: str

    @abstractmethod
    def check(self, evidence: Evidence) -> Iterator[Finding]: ...


RULES: Registry[Rule] = Registry("rule", "optimizer.diagnosing.rules")
register_rule = RULES.register
_SEVERITY = ("high", "medium", "low", "info")


def diagnose(evidence: Evidence) -> list[Finding]:
    """Every rule's findings, the most severe first."""
    findings = [finding for rule in RULES for finding in rule.check(evidence)]
    return sorted(findings, key=lambda finding: _SEVERITY.index(finding.severity))
