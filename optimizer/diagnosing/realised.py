"""Of each finding with a remedy that a plan can hold: what was predicted, and what the run measured of that step.

Reads a result and nothing else. The strongest evidence counts: the judgement's own sets (settings of the process, on
the original), the ablation, then two finalists or two screened candidates that differ in the step alone. No evidence
is made up for steps that were only measured together with others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from optimizer.benchmarking.statistics import CONFIDENCE, student_interval
from optimizer.diagnosing.remedies import difference, is_remedy, remedy_of, settings_of
from optimizer.result import (
    Candidate,
    CheckedGain,
    Comparison,
    EvaluationStatus,
    Finding,
    GainEvidence,
    Interval,
    RealisedGain,
    Result,
)
from optimizer.spec import dump_step

BASELINE, DEPLOYED = "baseline", "baseline (default settings)"
MIN_PAIRS = 2
Steps = list[dict[str, Any]]


def checked_gains(result: Result) -> list[CheckedGain]:
    """In the order of the findings; none of those without a prediction, or without a step that mends them."""
    return [_checked(finding, result) for finding in result.findings if finding.gain and finding.mended_by]


def _checked(finding: Finding, result: Result) -> CheckedGain:
    assert finding.gain is not None
    found = next(_realised(finding.mended_by, result), None)
    return CheckedGain(
        rule=finding.rule,
        remedy=remedy_of(finding.mended_by),
        mended_by=finding.mended_by,
        predicted=finding.gain,
        realised=found,
        not_realised_because="" if found is not None else _why_not(finding.mended_by, result),
    )


def _realised(mended_by: Steps, result: Result) -> Iterator[RealisedGain]:
    """The strongest evidence first."""
    yield from _of_judgement(mended_by, result)
    yield from _of_ablation(mended_by, result)
    finalists = [(one.candidate, one.speedup) for one in result.finalists]
    yield from _of_pairs(mended_by, finalists, result.winner, "finalists")
    screened = [
        (one.candidate, one.screened_speedup)
        for one in result.candidates
        if one.status == EvaluationStatus.PASSED and one.screened_speedup
    ]
    yield from _of_pairs(mended_by, screened, result.winner, "screening")


def _of_judgement(mended_by: Steps, result: Result) -> Iterator[RealisedGain]:
    """The original in default settings over itself in the winner's, from the sets that both were measured in."""
    winner = next((one.candidate for one in result.candidates if one.candidate.name == result.winner), None)
    if winner is None or not is_remedy(_settings(winner), mended_by):
        return
    same = _comparison(result, BASELINE, winner.name)
    deployed = _comparison(result, DEPLOYED, winner.name)
    if same is None or deployed is None or len(same.log_speedups) != len(deployed.log_speedups):
        return
    logs = [a - b for a, b in zip(deployed.log_speedups, same.log_speedups, strict=True)]
    if len(logs) < MIN_PAIRS:
        return
    low, gain, high = student_interval(logs)
    interval = Interval(low=low, high=high, confidence=CONFIDENCE)
    yield RealisedGain(gain=gain, interval=interval, evidence="judgement", measured_on=BASELINE)


def _comparison(result: Result, base: str, other: str) -> Comparison | None:
    return next((one for one in result.comparisons if (one.base, one.other) == (base, other)), None)


def _of_ablation(mended_by: Steps, result: Result) -> Iterator[RealisedGain]:
    for row in result.ablation:
        if row.gain is not None and is_remedy(_steps_of_row(row.step), mended_by):
            plan = row.measured_on or result.winner or ""
            yield RealisedGain(gain=row.gain, interval=row.interval, evidence="ablation", measured_on=plan)


def _steps_of_row(step: dict[str, Any]) -> Steps:
    """A row of several passes names them in a list."""
    return [{"pass": name} for name in step["passes"]] if "passes" in step else [step]


def _of_pairs(
    mended_by: Steps, plans: Sequence[tuple[Candidate, float]], winner: str | None, evidence: GainEvidence
) -> Iterator[RealisedGain]:
    """Of two plans that differ in this remedy alone; the winner's first, then of those with the most steps."""
    ordered = sorted(plans, key=lambda one: (one[0].name != winner, -len(one[0].steps), one[0].name))
    for whole, speedup in ordered:
        for without, of_without in plans:
            extra = difference(_documents(whole), _documents(without))
            if extra and is_remedy(extra, mended_by):
                yield RealisedGain(gain=speedup / of_without, evidence=evidence, measured_on=whole.name)


def _why_not(mended_by: Steps, result: Result) -> str:
    row = next((row for row in result.ablation if is_remedy(_steps_of_row(row.step), mended_by)), None)
    if row is not None and row.reason:
        return row.reason
    passes = {step["pass"] for step in mended_by if "pass" in step}
    settings = settings_of(mended_by)
    held = [
        one.candidate
        for one in result.candidates
        if passes <= {step.get("pass") for step in _documents(one.candidate)}
        and settings.items() <= settings_of(_documents(one.candidate)).items()
    ]
    if not held:
        return "no candidate had this step"
    return "it was measured only together with other steps"


def _settings(candidate: Candidate) -> Steps:
    return [step for step in _documents(candidate) if "runtime" in step]


def _documents(candidate: Candidate) -> Steps:
    return [dump_step(step) for step in candidate.steps]
