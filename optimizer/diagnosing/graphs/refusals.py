"""What a rule says of a model that has no single graph: the user's line, and the remedy of the capture's own error."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.diagnosing.base import Evidence, Rule
from optimizer.result import Finding, Problem

THRESHOLD = "torch.export gives the model up there (its own refusal)"


def refusal(evidence: Evidence, *ids: str) -> Problem | None:
    problem = evidence.problem
    return problem if problem is not None and problem.id in ids else None


def told(rule: Rule, problem: Problem, title: str, steps: Sequence[str] = ()) -> Finding:
    """High: no pass, no compiler and no package can work on a model without a graph."""
    steps = [problem.remedy, *steps]
    lines = [problem.place] if problem.place else []
    return Finding(
        rule=rule.name,
        severity="high",
        title=title + (f", at {problem.place}" if problem.place else ""),
        evidence={"sources": lines, "error": problem.id, "refusal": problem.message},
        remedy=" ".join(steps),
        threshold=THRESHOLD,
        steps=steps,
    )
