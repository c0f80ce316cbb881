"""One sequence of steps with its true outcome and the baseline's: what a candidate's outcome of it is held against.

Every tensor (a parameter's gradient at a step, its update, each moment of the optimizer) is judged by itself: its
error is a share of its spread in float64, or of a tenth of what its like have on average, where it is smaller: a
gradient that is zero but for rounding says nothing. Allowed is three times what rounding does, and a floor. What
rounding does is shown by the baseline, and by the baseline from parameters that were moved by a rounding error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from optimizer.result import OutputNumerics
from optimizer.verifying.numerics import ErrorSum, Regime, Rule, Yardstick, few_factor, places_reason, yardstick
from optimizer.verifying.training.asking import KINDS, Trained

SMALL = 0.1
ALIKE = 1e-3
HOPELESS_ERROR = 0.1  # float32 that is this far off says nothing about a candidate
TITLES = {"gradients": "gradient", "updates": "update", "state": "optimizer state"}
Kind = Literal["gradients", "updates", "state"]


@dataclass(frozen=True)
class Tensor:
    """What one tensor's errors are divided by, and what rounding alone makes of it."""

    unit: float
    noise: float


@dataclass
class Case:
    """`nudged`: the baseline's outcomes from parameters moved by a rounding error."""

    name: str
    batches: list[list[np.ndarray]]
    order: list[int]
    truth: Trained
    baseline: Trained
    nudged: Sequence[Trained]
    items: int
    regime: Regime = "pooled"
    loss_unit: float = field(init=False)
    loss_noise: float = field(init=False)
    tensors: dict[str, dict[str, Tensor]] = field(init=False)

    def __post_init__(self) -> None:
        size = float(np.sqrt(np.mean(np.square(self.truth.losses)))) or 1.0
        # one loss, or losses that are alike by chance, have no spread to speak of
        self.loss_unit = max(_size(yardstick([self.truth.losses], rows=False)), ALIKE * size)
        rounded = [self.baseline, *self.nudged]
        self.loss_noise = max(self._loss_error(one) for one in rounded)
        self.tensors = {}
        for kind in KINDS:
            truth = self.truth.of(kind)
            units = {name: yardstick([array], rows=False) for name, array in truth.items()}
            typical = math.sqrt(sum(_size(unit) ** 2 for unit in units.values()) / len(units)) if units else 0.0
            self.tensors[kind] = {}
            for name, array in truth.items():
                unit = max(_size(units[name]), SMALL * typical) or 1.0
                noise = max(_error(one.of(kind)[name], array, unit) for one in rounded)
                self.tensors[kind][name] = Tensor(unit, noise)

    def not_judged(self) -> list[str]:
        """What the original itself gets wrong by rounding alone."""
        return [
            f"{TITLES[kind]} of {shown(name)}"
            for kind, tensors in self.tensors.items()
            for name, tensor in tensors.items()
            if tensor.noise > HOPELESS_ERROR
        ]

    def form_reason(self, answer: Trained) -> str | None:
        for kind in KINDS:
            mine, wanted = answer.of(kind), self.baseline.of(kind)
            if list(mine) != list(wanted):
                return f"it gives {len(mine)} {kind} where the original gives {len(wanted)}"
            for name, array in wanted.items():
                if mine[name].shape != array.shape:
                    return f"the {TITLES[kind]} of {shown(name)} has another shape than the original's"
        return None

    def judge(self, answer: Trained, rule: Rule) -> list[OutputNumerics]:
        """One row for the loss, and for each kind the tensor that comes nearest to what it is allowed, or furthest
        beyond. Needs an answer of the right form."""
        rows = [self._loss_row(answer, rule)]
        for kind in KINDS:
            judged = [name for name, tensor in self.tensors[kind].items() if tensor.noise <= HOPELESS_ERROR]
            found = [self._row(kind, name, len(judged), answer, rule) for name in judged]
            if found:
                rows.append(max(found, key=lambda row: (not row.passed, row.error / row.allowed)))
        return rows

    def _loss_row(self, answer: Trained, rule: Rule) -> OutputNumerics:
        error, allowed = self._loss_error(answer), rule.allowed(self.loss_noise, self.regime, 1.0)
        reason = places_reason(answer.losses, self.truth.losses, self.baseline.losses)
        if reason is None and error > allowed:
            reason = f"error {error:.2e} of the spread, allowed {allowed:.2e} (rounding alone: {self.loss_noise:.2e})"
        largest = float(np.nanmax(np.abs(answer.losses - self.truth.losses), initial=0.0))
        kind: Literal["spread", "size"] = "size" if len(self.order) == 1 else "spread"
        return self._numerics("loss", error, self.loss_noise, allowed, largest, kind, reason)

    def _row(self, kind: str, name: str, count: int, answer: Trained, rule: Rule) -> OutputNumerics:
        tensor, truth = self.tensors[kind][name], self.truth.of(kind)[name]
        mine = answer.of(kind)[name]
        error = _error(mine, truth, tensor.unit)
        allowed = rule.allowed(tensor.noise, self.regime, few_factor(truth.size))
        reason = places_reason(mine, truth, self.baseline.of(kind)[name])
        if reason is None and error > allowed:
            reason = f"error {error:.2e} of the spread, allowed {allowed:.2e} (rounding alone: {tensor.noise:.2e})"
        with np.errstate(invalid="ignore"):
            largest = float(np.nanmax(np.abs(mine - truth), initial=0.0))
        label = f"{TITLES[kind]} of {shown(name)}" + (f" (worst of {count})" if count > 1 else "")
        return self._numerics(label, error, tensor.noise, allowed, largest, "spread", reason)

    def _numerics(
        self,
        name: str,
        error: float,
        noise: float,
        allowed: float,
        largest: float,
        yardstick: Literal["spread", "size"],
        reason: str | None,
    ) -> OutputNumerics:
        return OutputNumerics(
            output=name,
            dtype="float32",
            error=error,
            baseline_error=noise,
            allowed=allowed,
            max_abs_error=largest if math.isfinite(largest) else 0.0,
            samples=self.items * len(self.order),
            passed=reason is None,
            reason=reason,
            yardstick=yardstick,
        )

    def _loss_error(self, answer: Trained) -> float:
        return _error(answer.losses, self.truth.losses, self.loss_unit)


def _error(mine: np.ndarray, truth: np.ndarray, unit: float) -> float:
    total = ErrorSum()
    total.add(mine, truth)
    return total.relative(Yardstick(unit, "spread"))


def _size(unit: Yardstick) -> float:
    """A tensor that is all zeros has none."""
    return 0.0 if unit.kind == "unit" else unit.rms


def shown(name: str) -> str:
    """`3 model.head.weight` is the head's weight at the fourth step."""
    number, _, parameter = name.rpartition(" ")
    parameter = parameter.removeprefix("model.")
    return f"{parameter}, step {int(number) + 1}" if number.isdigit() else name.replace("model.", "", 1)
