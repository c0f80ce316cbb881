"""Judges answers against the truths: one row per output over the pooled samples, one reason per edge set."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from optimizer.result import OutputNumerics
from optimizer.verifying.numerics import (
    ErrorSum,
    Regime,
    Rule,
    Yardstick,
    few_factor,
    integer_errors,
    is_float,
    places_reason,
    structure_reason,
)
from optimizer.verifying.questions import Question, Truths

Answer = Sequence[np.ndarray]
# what is compared after timing has one call's samples and stands against the baseline, itself off by its own error
AGREEMENT_FACTOR = 4.0


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
    )


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


def agreement(truths: Truths, rule: Rule) -> Callable[[Answer, Answer], str | None]:
    """Compares a candidate's answer with the baseline's on one fresh input set, as is done after timing.

    Integers may differ in few places: on fresh inputs ties cannot be told from errors.
    """

    def compare(answer: Answer, expected: Answer) -> str | None:
        if len(answer) != len(expected):
            return f"it gives {len(answer)} outputs where the original gives {len(expected)}"
        for output, (mine, base) in enumerate(zip(answer, expected, strict=True)):
            reason = structure_reason(mine, base) or _disagreement(mine, base, truths, rule, output)
            if reason is not None:
                return f"{truths.names[output]} {reason}"
        return None

    return compare


def _disagreement(mine: np.ndarray, base: np.ndarray, truths: Truths, rule: Rule, output: int) -> str | None:
    if not is_float(base):
        wrong = int((mine != base).sum())
        return f"differs in {wrong} of {base.size} integers" if wrong > 2 + (rule.bound or 0.02) * base.size else None
    places = places_reason(mine, base, base)
    if places is not None:
        return places
    total = ErrorSum()
    total.add(mine, base)
    unit: Yardstick = truths.yardsticks[output]
    allowed = AGREEMENT_FACTOR * rule.allowed(truths.baseline_errors[output], "edge", few_factor(total.elements))
    error = total.relative(unit)
    return f"is off by {error:.2e} of {unit.words}, allowed {allowed:.2e}" if error > allowed else None
