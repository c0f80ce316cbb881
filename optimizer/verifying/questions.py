"""The question sets of a run with their true answers and the baseline's: what every candidate is judged against."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from optimizer.verifying.columns import Columns, ColumnSum, columns_of
from optimizer.verifying.numerics import ErrorSum, Yardstick, is_float, yardstick

# float32 that is this far off says nothing about a candidate
HOPELESS_ERROR = 0.1


@dataclass
class Question:
    """One input set. `ties` marks, per integer output, the places where rounding alone decides."""

    name: str
    kind: Literal["random", "sizes", "edge"]
    arrays: list[np.ndarray]
    items: int
    amplifies: bool = False
    breaks_promise: bool = False
    fine: bool = False
    truth: list[np.ndarray] = field(default_factory=list)
    baseline: list[np.ndarray] = field(default_factory=list)
    ties: list[np.ndarray] = field(default_factory=list)
    not_judged: str | None = None

    def rows(self, output: int) -> bool:
        """Whether dimension 0 of this output is the sample."""
        shape = self.truth[output].shape
        return bool(shape) and shape[0] == self.items

    def mark_ties(self, nudged: list[list[np.ndarray]]) -> None:
        """`nudged`: the reference's answers to inputs moved by a rounding error."""
        self.ties = []
        for index, (truth, base) in enumerate(zip(self.truth, self.baseline, strict=True)):
            tie = base != truth
            if not is_float(truth):
                for other in nudged:
                    if other[index].shape == truth.shape:
                        tie = tie | (other[index] != truth)
            self.ties.append(tie)


@dataclass
class Truths:
    """Everything that is worked out once per run."""

    names: list[str]
    inputs: list[str]
    pooled: list[Question]
    edges: list[Question]
    yardsticks: list[Yardstick] = field(default_factory=list)
    baseline_errors: list[float] = field(default_factory=list)
    columns: list[Columns | None] = field(default_factory=list)

    @property
    def samples(self) -> int:
        return sum(question.items for question in self.pooled)

    def measure_baseline(self) -> None:
        """Fills the yardsticks and the baseline's pooled errors; sets aside edges where float32 itself is lost."""
        self.yardsticks, self.baseline_errors, self.columns = [], [], []
        for output in range(len(self.names)):
            unit = self._yardstick(output)
            total, wrong, places = ErrorSum(), 0, 0
            for question in self.pooled:
                truth, base = question.truth[output], question.baseline[output]
                if is_float(truth):
                    total.add(base, truth)
                else:
                    wrong += int((base != truth).sum())
                    places += truth.size
            self.yardsticks.append(unit)
            self.baseline_errors.append(wrong / places if places else total.relative(unit))
            self.columns.append(self._columns(output))
        for question in self.edges:
            if question.not_judged is None:
                question.not_judged = self._why_not_judged(question)

    def unit(self, question: Question, output: int) -> Yardstick:
        """An edge set is measured by its own spread, but never by less than that of ordinary samples."""
        pooled = self.yardsticks[output]
        own = yardstick([question.truth[output]], rows=question.rows(output))
        if own.kind == "spread" and (own.rms > pooled.rms or pooled.kind == "unit"):
            return own
        return pooled

    def baseline_error(self, question: Question, output: int) -> float:
        truth, base = question.truth[output], question.baseline[output]
        if not is_float(truth):
            return float((base != truth).mean()) if truth.size else 0.0
        total = ErrorSum()
        total.add(base, truth)
        return total.relative(self.unit(question, output))

    def _yardstick(self, output: int) -> Yardstick:
        answers = [question.truth[output] for question in self.pooled]
        if not is_float(answers[0]):
            return Yardstick(1.0, "unit")
        return yardstick(answers, rows=all(question.rows(output) for question in self.pooled))

    def _columns(self, output: int) -> Columns | None:
        answers = [question.truth[output] for question in self.pooled]
        if not is_float(answers[0]):
            return None
        found = columns_of(answers, rows=all(question.rows(output) for question in self.pooled))
        if found is None:
            return None
        total = ColumnSum(found)
        for question in self.pooled:
            total.add(question.baseline[output], question.truth[output])
        return found.with_baseline(total.relative())

    def columns_at(self, output: int) -> Columns | None:
        """The columns that are judged by themselves; None where the output is judged as a whole only."""
        return self.columns[output] if output < len(self.columns) else None

    def _why_not_judged(self, question: Question) -> str | None:
        for output, name in enumerate(self.names):
            truth, base = question.truth[output], question.baseline[output]
            if not is_float(truth):
                continue
            if question.amplifies and not np.isfinite(base).all():
                return f"the original's {name} is not finite there"
            error = self.baseline_error(question, output)
            if error > HOPELESS_ERROR:
                return f"the original's own {name} is off by {error:.0%} of its spread there, by rounding alone"
        return None
