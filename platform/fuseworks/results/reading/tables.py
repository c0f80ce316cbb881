"""Candidates, ablation and rewrites as rows of a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fuseworks.results.reading.contenders import BASELINE, DEPLOYED, contenders
from fuseworks.results.reading.steps import StepWords, step_words
from optimizer.result import AblationRow, Evaluation, Result, Rewrite


@dataclass(frozen=True)
class CandidateRow:
    """`role`: winner, best_peer, baseline, peer or empty."""

    evaluation: Evaluation
    role: str
    steps: list[StepWords]


@dataclass(frozen=True)
class StepGain:
    row: AblationRow
    step: StepWords


def candidates(result: Result) -> list[CandidateRow]:
    """All of them, in the order in which they were filed."""
    return [
        CandidateRow(one, _role(result, one), [step_words(step) for step in one.candidate.steps])
        for one in result.candidates
    ]


def _role(result: Result, evaluation: Evaluation) -> str:
    name = evaluation.candidate.name
    if name in (BASELINE, DEPLOYED):
        return "baseline"
    if name == result.winner:
        return "winner"
    if result.best_peer is not None and name == result.best_peer.name:
        return "best_peer"
    return "peer" if evaluation.candidate.peer else ""


def ablation(result: Result) -> list[StepGain]:
    return [StepGain(row, step_words(row.step)) for row in result.ablation]


def rewrites(result: Result) -> tuple[list[Rewrite], list[Rewrite]]:
    """Passes that did or refused something, and those that found nothing that looks like their pattern."""
    told = [one for one in result.rewrites if one.applied or one.refused]
    return told, [one for one in result.rewrites if not one.applied and not one.refused]


# ---- for the charts ------------------------------------------------------------------------------------------------


def judged_bars(result: Result) -> list[dict[str, Any]]:
    """Intervals of what was judged. A bar is called by the parts that both play: `Winner / Baseline`."""
    labels = {one.name: one.label for one in contenders(result)}
    return [
        {
            "label": f"{labels.get(one.other, one.other)} / {labels.get(one.base, one.base)}",
            "low": one.interval.low,
            "middle": one.speedup,
            "high": one.interval.high,
            "tone": one.verdict.value,
        }
        for one in result.comparisons
    ]


def ablation_bars(gains: Sequence[StepGain]) -> list[dict[str, Any]]:
    """Only the steps that were measured."""
    return [
        {
            "label": str(one.step),
            "low": one.row.interval.low,
            "middle": one.row.gain,
            "high": one.row.interval.high,
            "tone": one.row.verdict.value if one.row.verdict else "",
        }
        for one in gains
        if one.row.gain is not None and one.row.interval is not None
    ]
