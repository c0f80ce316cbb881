"""Whether a rewritten graph means what the original does: both in float64, where rounding hides nothing.

An epsilon of 5e-6 for one of 1e-6, behind an embedding of spread 1, moves an answer by less than float32 rounds; served
rows of small variance show it, and no probe reaches them through the inputs. Not for what lowers a precision.
"""

from __future__ import annotations

import numpy as np

from optimizer.result import Probe
from optimizer.sandbox import Child
from optimizer.verifying.asking import ask
from optimizer.verifying.judging import form_reason
from optimizer.verifying.numerics import ErrorSum, integer_errors, is_float, places_reason
from optimizer.verifying.questions import Question, Truths

NAME = "the rewritten graph in float64"
# folded weights are float32 again: that much is rounding, and as much again as the original's own float32 is off
SAME = 1e-6
TOLD_BY_ROUNDING = 1e-3  # where the original itself is off by this, an edge lies on a step of the model


def same_meaning(reference: Child, truths: Truths, timeout_s: float, *, edges: bool = True) -> Probe:
    """`reference` has `verifying.load_reference` of the rewritten graph done. Raises ChildFailed."""
    questions = [truths.pooled[0], *([q for q in truths.edges if _worth(q)] if edges else [])]
    answers = ask(reference, [question.arrays for question in questions], timeout_s=timeout_s, tolerant=True)
    for index, (question, answer) in enumerate(zip(questions, answers.sets, strict=True)):
        reason = f"it fails: {answers.failed[index]}" if answer is None else _reason(answer, question, truths)
        if reason is not None:
            place = "" if index == 0 else f"{question.name}: "
            text = f"in float64, where rounding hides nothing, it departs from the original: {place}{reason}"
            return Probe(name=NAME, kind="random", passed=False, reason=text)
    return Probe(name=NAME, kind="random", passed=True)


def not_asked(why: str) -> Probe:
    return Probe(name=NAME, kind="random", passed=True, judged=False, reason=f"not judged: {why}")


def _worth(question: Question) -> bool:
    """Of the served size, and nothing that the graph may answer otherwise."""
    unusual = question.amplifies or question.breaks_promise or question.not_judged is not None
    return question.kind == "edge" and not unusual


def _reason(answer: list[np.ndarray], question: Question, truths: Truths) -> str | None:
    raised = [a.astype(b.dtype) if is_float(a) and is_float(b) else a for a, b in _pairs(answer, question)]
    form = form_reason(raised if len(raised) == len(answer) else answer, question, truths.names)
    if form is not None:
        return form
    for output, name in enumerate(truths.names):
        mine, truth = answer[output], question.truth[output]
        if not is_float(truth):
            wrong, _ = integer_errors(mine, truth, question.ties[output])
            if wrong:
                return f"{name}: {wrong} of {truth.size} integers differ and are no ties"
            continue
        own = truths.baseline_error(question, output)
        if own > TOLD_BY_ROUNDING:
            continue
        places = places_reason(mine, truth, truth)
        if places is not None:
            return f"{name} {places}"
        total, unit = ErrorSum(), truths.unit(question, output)
        total.add(mine, truth)
        error = total.relative(unit)
        if error > SAME + own:
            return f"{name}: error {error:.2e} of {unit.words}, allowed {SAME + own:.2e}"
    return None


def _pairs(answer: list[np.ndarray], question: Question) -> list[tuple[np.ndarray, np.ndarray]]:
    return list(zip(answer, question.baseline, strict=False))
