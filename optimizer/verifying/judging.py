"""Judges answers against the truths: one row per output over the pooled samples, one reason per edge set."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optimizer.result import ColumnNumerics, OutputNumerics
from optimizer.verifying.columns import ColumnSum, Worst
from optimizer.verifying.numerics import (
    ErrorSum,
    Regime,
    Rule,
    few_factor,
    integer_errors,
    is_float,
    places_reason,
    structure_reason,
)
from optimizer.verifying.questions import Question, Truths

Answer = Sequence[np.ndarray]


def form_reason(answer: Answer, question: Question, names: Sequence[str]) -> str | None:
    """Number, shapes and dtypes of the outputs, as the baseline gives them."""
    if len(answer) != len(question.baseline):
        return f"it gives {len(answer)} outputs where the original gives {len(question.baseline)}"
    for name, mine, base in zip(names, answer, question.baseline, strict=True):
        reason = structure_reason(mine, base)
        if reason is not None:
            return f"{name} {reason}"
    return None


def judge_pooled(answers: Sequence[Answer], truths: Truths, rule: Rule) -> list[OutputNumerics]:
    """Needs answers of the right form."""
    return [_judge_output(answers, truths, rule, output) for output in range(len(truths.names))]


def _judge_output(answers: Sequence[Answer], truths: Truths, rule: Rule, output: int) -> OutputNumerics:
    baseline_error = truths.baseline_errors[output]
    total, wrong, tied, places = ErrorSum(), 0, 0, 0
    reason: str | None = None
    worst: Worst | None = None
    for answer, question in zip(answers, truths.pooled, strict=True):
        mine, truth = answer[output], question.truth[output]
        if is_float(truth):
            reason = reason or places_reason(mine, truth, question.baseline[output])
            total.add(mine, truth)
        else:
            missed, ties = integer_errors(mine, truth, question.ties[output])
            wrong, tied, places = wrong + missed, tied + ties, places + truth.size
            total.max_abs = max(total.max_abs, _largest_step(mine, truth))
    integral = not is_float(truths.pooled[0].truth[output])
    if integral:
        # a lower precision may flip choices: as large a share of them as its bound
        allowed = rule.bound or 0.0
        error = wrong / places if places else 0.0
        if error > allowed:
            reason = f"{wrong} of {places} integers differ from the original's and are no ties"
        elif tied:
            reason = f"{tied} of {places} integers differ at ties, where rounding decides"
    else:
        allowed = rule.allowed(baseline_error)
        unit = truths.yardsticks[output]
        error = total.relative(unit)
        if error > allowed and reason is None:
            reason = (
                f"error {error:.2e} of {unit.words}, allowed {allowed:.2e} (the original's own is {baseline_error:.2e})"
            )
        worst = _worst_column(answers, truths, rule, output)
        if worst is not None and reason is None:
            reason = worst.reason
    return OutputNumerics(
        output=truths.names[output],
        dtype=truths.pooled[0].baseline[output].dtype.name,
        error=error,
        baseline_error=baseline_error,
        allowed=allowed,
        max_abs_error=total.max_abs,
        samples=truths.samples,
        passed=error <= allowed and (integral or reason is None),
        reason=reason,
        yardstick="places" if integral else truths.yardsticks[output].kind,
        worst_column=None
        if worst is None
        else ColumnNumerics(column=worst.column, error=worst.error, allowed=worst.allowed, yardstick=worst.unit.kind),
    )


def _worst_column(answers: Sequence[Answer], truths: Truths, rule: Rule, output: int) -> Worst | None:
    columns = truths.columns_at(output)
    if columns is None:
        return None
    total = ColumnSum(columns)
    for answer, question in zip(answers, truths.pooled, strict=True):
        total.add(answer[output], question.truth[output])
    return total.worst(rule)


def _largest_step(mine: np.ndarray, truth: np.ndarray) -> float:
    return float(np.abs(mine.astype(np.float64) - truth.astype(np.float64)).max()) if truth.size else 0.0


def judge_edge(answer: Answer, question: Question, truths: Truths, rule: Rule) -> str | None:
    """Why this answer is wrong, or None."""
    form = form_reason(answer, question, truths.names)
    if form is not None:
        return form
    regime: Regime = "amplified" if question.amplifies else "edge"
    for output, name in enumerate(truths.names):
        mine, truth, base = answer[output], question.truth[output], question.baseline[output]
        if not is_float(truth):
            wrong, _ = integer_errors(mine, truth, question.ties[output])
            if wrong > (rule.bound or 0.0) * 3 * truth.size:
                return f"{name}: {wrong} of {truth.size} integers differ from the original's and are no ties"
            continue
        places = places_reason(mine, truth, base)
        if places is not None:
            return f"{name} {places}"
        total = ErrorSum()
        total.add(mine, truth)
        unit = truths.unit(question, output)
        baseline_error = max(truths.baseline_error(question, output), truths.baseline_errors[output])
        allowed = rule.allowed(baseline_error, regime, few_factor(total.elements))
        error = total.relative(unit)
        if error > allowed:
            return f"{name}: error {error:.2e} of {unit.words}, allowed {allowed:.2e}"
    return None
