"""Says what a wrong answer looks like: zeros, an old answer, another output, a factor, a lower precision.

A guess for the reader, made from the answers alone; the verdict does not rest on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from optimizer.verifying import controls
from optimizer.verifying.numerics import ErrorSum, is_float
from optimizer.verifying.questions import Truths

Answers = Sequence[Sequence[np.ndarray]]
LOW_PRECISION_ERRORS = (3e-4, 5e-2)


def explain(answers: Answers, truths: Truths, output: int, allowed: float) -> str | None:
    """For one output that failed over the pooled samples."""
    mine = [answer[output] for answer in answers]
    if not all(np.isfinite(array).all() for array in mine):
        return None

    def looks_like(forged: Answers) -> bool:
        total = ErrorSum()
        for array, row in zip(mine, forged, strict=True):
            if row[output].shape != array.shape:
                return False
            total.add(array, row[output].astype(np.float64))
        return total.relative(truths.yardsticks[output]) <= max(allowed, 1e-6)

    first = [truths.pooled[0].baseline] * len(truths.pooled)
    guesses: list[tuple[str, Callable[[], Answers]]] = [
        ("it answers zeros", lambda: controls.forge_zeros(truths)),
        ("it gives the first call's answer again", lambda: first),
        ("it hands an input back", lambda: controls.forge_inputs(truths)),
    ]
    for text, forge in guesses:
        if looks_like(forge()):
            return text
    if _is_last_answer(answers, truths, output, allowed):
        return "it gives the answer of the call before"
    return _swapped(mine, truths, output, allowed) or _scaled_or_rounded(mine, truths, output, allowed)


def _is_last_answer(answers: Answers, truths: Truths, output: int, allowed: float) -> bool:
    """The very first call has no call before it, so it is left out."""
    total = ErrorSum()
    for answer, previous in zip(list(answers)[1:], truths.pooled, strict=False):
        if answer[output].shape != previous.truth[output].shape:
            return False
        total.add(answer[output], previous.truth[output].astype(np.float64))
    return total.elements > 0 and total.relative(truths.yardsticks[output]) <= max(allowed, 1e-6)


def _swapped(mine: Sequence[np.ndarray], truths: Truths, output: int, allowed: float) -> str | None:
    for other, name in enumerate(truths.names):
        pairs = [(a, q.truth[other]) for a, q in zip(mine, truths.pooled, strict=True)]
        if other == output or any(a.shape != t.shape for a, t in pairs):
            continue
        total = ErrorSum()
        for a, t in pairs:
            total.add(a, t.astype(np.float64))
        if total.elements and total.relative(truths.yardsticks[other]) <= max(allowed, 1e-6):
            return f"it holds what belongs into {name}"
    return None


def _scaled_or_rounded(mine: Sequence[np.ndarray], truths: Truths, output: int, allowed: float) -> str | None:
    if not is_float(truths.pooled[0].truth[output]):
        return None
    y = np.concatenate([array.ravel() for array in mine]).astype(np.float64)
    r = np.concatenate([question.truth[output].ravel() for question in truths.pooled])
    known = np.isfinite(r)
    y, r = y[known], r[known]
    square = float(r @ r)
    if not square:
        return None
    factor = float(y @ r) / square
    unit = truths.yardsticks[output].rms
    rest = math.sqrt(float(((y - factor * r) ** 2).mean())) / unit
    error = math.sqrt(float(((y - r) ** 2).mean())) / unit
    if rest <= max(allowed, 1e-6) and rest < error / 10 and abs(factor) > 1e-6:
        return f"it is off by the constant factor {factor:.6g}"
    low, high = LOW_PRECISION_ERRORS
    return "an error of this size is what bfloat16 arithmetic makes" if low < error < high else None
