"""Compares a training contender's answers with the baseline's or the reference's after they were timed: the loss of a
call, and what a whole burst of steps changed in every parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optimizer.verifying.numerics import Rule, few_factor, structure_reason
from optimizer.verifying.training.case import HOPELESS_ERROR, SMALL

Answer = Sequence[np.ndarray]
FACTOR = 4.0  # the baseline that an answer is held against is itself off by its own error
NAMES = ("loss", "changes")


@dataclass(frozen=True)
class StepAgreement:
    """Call it with `(answer, expected)`; the answer is the reason why they do not agree, or None. `noise`: what
    rounding alone makes of each parameter's change over as many steps."""

    rule: Rule
    loss_noise: float
    noise: np.ndarray
    parameters: Sequence[str]

    def __call__(self, answer: Answer, expected: Answer) -> str | None:
        if len(answer) != len(NAMES) or len(expected) != len(NAMES):
            return f"it gives {len(answer)} outputs where a training step gives {len(NAMES)}"
        for name, mine, base in zip(NAMES, answer, expected, strict=True):
            reason = structure_reason(mine, base)
            if reason is not None:
                return f"{name} {reason}"
            if not np.isfinite(mine).all() and np.isfinite(base).all():
                return f"{name} is not finite where the original's is"
        return self._loss(answer[0].item(), expected[0].item()) or self._changes(answer[1], expected[1])

    def _loss(self, mine: float, base: float) -> str | None:
        allowed = FACTOR * self.rule.allowed(self.loss_noise, "edge")
        error = abs(mine - base) / (abs(base) or 1.0)
        return f"loss is off by {error:.2e} of its size, allowed {allowed:.2e}" if error > allowed else None

    def _changes(self, mine: np.ndarray, base: np.ndarray) -> str | None:
        errors = change_errors(mine, base)
        allowed = np.array(
            [FACTOR * self.rule.allowed(float(n), "edge", few_factor(base.shape[1])) for n in self.noise]
        )
        beyond = (errors > allowed) & (self.noise <= HOPELESS_ERROR)
        if not beyond.any():
            return None
        at = int(np.argmax(np.where(beyond, errors / allowed, 0.0)))
        return (
            f"{self.parameters[at]} was changed otherwise: off by {errors[at]:.2e} of its change, allowed "
            f"{allowed[at]:.2e}"
        )


def change_errors(mine: np.ndarray, base: np.ndarray) -> np.ndarray:
    """By parameter: RMS difference, as a share of what the parameter (at least a tenth of what all on average)
    changed."""
    sizes = _rms(base)
    typical = float(np.sqrt(np.mean(np.square(sizes)))) if len(sizes) else 0.0
    units = np.maximum(sizes, SMALL * typical)
    return np.asarray(_rms(mine - base) / np.where(units > 0, units, 1.0))


def _rms(changes: np.ndarray) -> np.ndarray:
    return np.asarray(np.sqrt(np.mean(np.square(changes), axis=1)))
