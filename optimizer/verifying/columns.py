"""The worst column of an output with few columns: each is judged by its own spread, beside the output as a whole.

Pooled over an output, one column of spread 1000 hides another of spread 0.004, and a constant answer there would pass.
Not for wide outputs: among hundreds of columns one always lies far off by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from optimizer.verifying.numerics import MOST, Regime, Rule, Yardstick, few_factor, yardstick

MOST_COLUMNS = 64
MIN_ELEMENTS = 16  # a column's spread over fewer is chance
# what float32 can tell at a column's size: behind 0.5 +- 1e-6 rounding is a large part of the spread
RESOLUTION = 4 * float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class Columns:
    """Of one output: what each column's error is divided by, the share of it that float32 cannot resolve, and the
    baseline's own errors in it."""

    units: list[Yardstick]
    unresolved: np.ndarray
    baseline_errors: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def with_baseline(self, errors: np.ndarray) -> Columns:
        return replace(self, baseline_errors=errors)


class Worst(NamedTuple):
    """The column that is nearest to what it is allowed, or furthest beyond."""

    column: int
    error: float
    allowed: float
    unit: Yardstick
    baseline_error: float

    @property
    def reason(self) -> str | None:
        if self.error <= self.allowed:
            return None
        return (
            f"column {self.column} alone: error {self.error:.2e} of {self.unit.words}, allowed {self.allowed:.2e} "
            f"(the original's own is {self.baseline_error:.2e})"
        )


def columns_of(answers: Sequence[np.ndarray], *, rows: bool) -> Columns | None:
    """From the reference's answers over all pooled sets; None for one column, many, or too few elements in each."""
    widths = {a.shape[-1] if a.ndim > int(rows) else 1 for a in answers}
    width = widths.pop()
    if widths or not 2 <= width <= MOST_COLUMNS or sum(a.size for a in answers) < MIN_ELEMENTS * width:
        return None
    units, unresolved = [], []
    for column in range(width):
        values = [a[..., column] for a in answers]
        units.append(yardstick(values, rows=rows))
        finite = np.concatenate([v[np.isfinite(v)].ravel() for v in values])
        size = float(np.sqrt(np.mean(np.square(finite, dtype=np.float64)))) if finite.size else 0.0
        unresolved.append(min(RESOLUTION * size / units[-1].rms, MOST))
    return Columns(units, np.array(unresolved))


class ColumnSum:
    """Squared differences by column, added up over input sets; where either side is not finite nothing is added."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.squares = np.zeros(len(columns.units))
        self.elements = np.zeros(len(columns.units), dtype=np.int64)

    def add(self, answer: np.ndarray, reference: np.ndarray) -> None:
        with np.errstate(invalid="ignore", over="ignore"):
            difference = (answer.astype(np.float64) - reference).reshape(-1, len(self.squares))
            known = np.isfinite(difference)
            squares = np.square(np.where(known, difference, 0.0)).sum(0)
        self.squares = np.minimum(self.squares + squares, MOST)
        self.elements += known.sum(0)

    def relative(self) -> np.ndarray:
        """Each column's RMS error in its own unit."""
        units = np.array([unit.rms for unit in self.columns.units])
        with np.errstate(over="ignore"):
            return np.minimum(np.sqrt(self.squares / np.maximum(self.elements, 1)) / units, MOST)

    def worst(self, rule: Rule, regime: Regime = "pooled", factor: float = 1.0) -> Worst:
        """By the rule of whole outputs: three times the baseline's error and a floor; widened for few elements."""
        errors, columns = self.relative(), self.columns
        allowed = [
            factor * rule.allowed(float(base), regime, few_factor(int(count))) + float(unresolved)
            for base, count, unresolved in zip(columns.baseline_errors, self.elements, columns.unresolved, strict=True)
        ]
        at = int(np.argmax(errors / np.array(allowed)))
        return Worst(at, float(errors[at]), allowed[at], columns.units[at], float(columns.baseline_errors[at]))
