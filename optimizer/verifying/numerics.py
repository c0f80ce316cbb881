"""The measure of error: centred relative L2 against float64, pooled over samples. numpy only.

An output's error is divided by its spread around its mean over the samples, never by its mean: behind a sigmoid near
0.5 a plain relative error hides everything. Integers are compared for equality, NaN and infinities by their places.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from optimizer.spec import Precision

FLOAT32_FLOOR = 1e-5
LOWER_PRECISION_BOUND = 1e-2
MOST = sys.float_info.max
# below this share of its size a spread is rounding of the float64 reference, so the output is constant
CONSTANT_SPREAD = 1e-10


@dataclass(frozen=True)
class Yardstick:
    """What an output's RMS error is divided by: its spread; its size when it is constant; 1 when it is all zeros."""

    rms: float
    kind: Literal["spread", "size", "unit"]

    @property
    def words(self) -> str:
        return {"spread": "the spread", "size": "the size (the output is constant)", "unit": "1 (the output is zero)"}[
            self.kind
        ]


Regime = Literal["pooled", "edge", "amplified"]
# edges hold few or unusual samples, and far magnitudes amplify rounding: there a wrong answer shows more grossly
FLOOR_SLACK: dict[Regime, float] = {"pooled": 1.0, "edge": 1.0, "amplified": 100.0}
BOUND_SLACK: dict[Regime, float] = {"pooled": 1.0, "edge": 3.0, "amplified": 10.0}


@dataclass(frozen=True)
class Rule:
    """How much error is allowed. `bound` is a lower precision's own, `limit` the workload's `max_error`."""

    ratio: float = 3.0
    floor: float = FLOAT32_FLOOR
    bound: float | None = None
    limit: float | None = None

    def allowed(self, baseline_error: float, regime: Regime = "pooled", few: float = 1.0) -> float:
        """`few` widens it for a handful of elements: see `few_factor`."""
        earned = (self.ratio * baseline_error + self.floor * FLOOR_SLACK[regime]) * few
        if self.limit is not None and regime != "amplified":
            # the original itself may be above the limit, and then an equal candidate is no worse
            earned = min(earned, max(self.limit * few, baseline_error))
        return earned if self.bound is None else max(earned, self.bound * BOUND_SLACK[regime] * few)


def rule_for(precision: Precision, max_error_ratio: float, max_error: float | None) -> Rule:
    """float32: the ratio to the baseline's error, tightened by `max_error`. bfloat16 and int8: `max_error`, or 1 %."""
    if precision != "float32":
        return Rule(max_error_ratio, bound=LOWER_PRECISION_BOUND if max_error is None else max_error, limit=max_error)
    return Rule(max_error_ratio, limit=max_error)


def few_factor(elements: int) -> float:
    """A mean over n squared errors strays by some 1/sqrt(n): a single element may lie several RMS away."""
    return 1.0 + 4.0 / math.sqrt(max(elements, 1))


def is_float(array: np.ndarray) -> bool:
    return array.dtype.kind == "f"


def yardstick(answers: Sequence[np.ndarray], *, rows: bool) -> Yardstick:
    """From the reference's answers over all pooled sets. `rows`: dimension 0 is the sample.

    The mean is taken per position over the samples where shapes allow it: two tasks in one output may lie far apart.
    """
    finite = [np.where(np.isfinite(a), a, np.nan).astype(np.float64) for a in answers]
    per_position = len({a.shape[1:] if rows else a.shape for a in finite}) == 1 and (rows or len(finite) > 2)
    if per_position:
        values = np.concatenate(finite) if rows else np.stack(finite)
        known = ~np.isnan(values)
        counts = np.maximum(known.sum(0), 1)
        filled = np.where(known, values, 0.0)
        spread = float((np.where(known, values - filled.sum(0) / counts, 0.0) ** 2).sum())
    else:
        values = np.concatenate([a.ravel() for a in finite])
        known = ~np.isnan(values)
        filled = np.where(known, values, 0.0)
        spread = float((np.where(known, values - filled.sum() / max(known.sum(), 1), 0.0) ** 2).sum())
    count = int(known.sum())
    if not count:
        return Yardstick(1.0, "unit")
    deviation, size = math.sqrt(spread / count), math.sqrt(float((filled**2).sum()) / count)
    if deviation > CONSTANT_SPREAD * size:
        return Yardstick(deviation, "spread")
    return Yardstick(size, "size") if size else Yardstick(1.0, "unit")


@dataclass
class ErrorSum:
    """Squared differences, added up over input sets; where either side is not finite nothing is added."""

    squares: float = 0.0
    elements: int = 0
    max_abs: float = 0.0

    def add(self, answer: np.ndarray, reference: np.ndarray) -> None:
        with np.errstate(invalid="ignore", over="ignore"):
            difference = answer.astype(np.float64) - reference
        difference = difference[np.isfinite(difference)]
        if difference.size:
            with np.errstate(over="ignore"):
                square = float(np.dot(difference, difference))
            # an overflow must stay a number: results travel as JSON
            self.squares = min(self.squares + square, MOST)
            self.elements += difference.size
            self.max_abs = max(self.max_abs, float(np.abs(difference).max()))

    def relative(self, unit: Yardstick) -> float:
        return min(math.sqrt(self.squares / self.elements) / unit.rms, MOST) if self.elements else 0.0


def structure_reason(answer: np.ndarray, expected: np.ndarray) -> str | None:
    """Why the answer is not even of the right form."""
    if answer.shape != expected.shape:
        return f"has shape {list(answer.shape)} where the original answers {list(expected.shape)}"
    if answer.dtype != expected.dtype:
        return f"is {answer.dtype.name} where the original answers {expected.dtype.name}"
    return None


def _classes(array: np.ndarray) -> np.ndarray:
    """0 finite, 1 NaN, 2 plus infinity, 3 minus infinity."""
    classes: np.ndarray = np.isnan(array).astype(np.int8)
    classes[np.isposinf(array)] = 2
    classes[np.isneginf(array)] = 3
    return classes


_CLASS_NAMES = ("finite", "NaN", "+inf", "-inf")


def places_reason(answer: np.ndarray, reference: np.ndarray, baseline: np.ndarray) -> str | None:
    """NaN and infinities must be where the reference or the baseline has them."""
    if np.isfinite(answer).all() and np.isfinite(reference).all():
        return None
    mine, true, base = _classes(answer), _classes(reference), _classes(baseline)
    wrong = (mine != true) & (mine != base)
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"is {_CLASS_NAMES[mine[at]]} at {list(at)} where the original is {_CLASS_NAMES[base[at]]} "
        f"({int(wrong.sum())} of {wrong.size} places)"
    )


def integer_errors(answer: np.ndarray, reference: np.ndarray, ties: np.ndarray) -> tuple[int, int]:
    """Places that differ from the reference: those that are no tie, and those that are.

    `ties`: where the baseline itself differs from the reference, or the reference changes when its inputs are rounded.
    """
    different = answer != reference
    return int((different & ~ties).sum()), int((different & ties).sum())
