"""A short training run: does a candidate's loss go the way the original's goes, as far as rounding lets one tell?

The same few batches again and again, so that the loss can fall. The noise is what the baseline's curve becomes when its
parameters begin moved by a rounding error, and when all is computed in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optimizer.result import Convergence
from optimizer.verifying.numerics import Rule
from optimizer.verifying.training.agreement import change_errors
from optimizer.verifying.training.asking import Trained

BATCHES, MOST_STEPS, LEAST_STEPS = 8, 48, 12
RUN_S = 4.0  # for one training run of the baseline


def step_count(step_s: float) -> int:
    """As many as take the time that is given to them, in whole rounds over the batches where that is so many."""
    fitting = int(min(MOST_STEPS, max(LEAST_STEPS, RUN_S / max(step_s, 1e-6))))
    return fitting - fitting % BATCHES if fitting >= 2 * BATCHES else fitting


@dataclass(frozen=True)
class Curves:
    """The baseline's training run, and how far rounding moves it. `noise` and `change_noise` (by parameter) are shares
    of the loss's size and of a parameter's change."""

    order: list[int]
    baseline: Trained
    noise: float
    change_noise: np.ndarray

    @classmethod
    def of(cls, order: list[int], baseline: Trained, others: Sequence[Trained]) -> Curves:
        """`others`: the reference's run, and the baseline's from moved parameters."""
        moved = [one for one in others if one.changes.shape == baseline.changes.shape]
        return cls(
            order,
            baseline,
            noise=max(deviation(one.losses, baseline.losses) for one in others),
            change_noise=np.max([change_errors(one.changes, baseline.changes) for one in moved], axis=0),
        )

    def judge(self, answer: Trained, rule: Rule) -> Convergence:
        base, allowed = self.baseline.losses, rule.allowed(self.noise)
        off = deviation(answer.losses, base)
        reason = None
        if np.isfinite(base).all() and not np.isfinite(answer.losses).all():
            reason = f"the loss is not finite at step {int(np.argmin(np.isfinite(answer.losses))) + 1}"
        elif off > allowed:
            reason = f"the loss goes another way: off by {off:.2e} of its size, allowed {allowed:.2e}"
        return Convergence(
            steps=len(self.order),
            baseline_losses=_told(base),
            losses=_told(answer.losses),
            deviation=off,
            noise=self.noise,
            allowed=allowed,
            passed=reason is None,
            reason=reason,
        )


def deviation(losses: np.ndarray, base: np.ndarray) -> float:
    """RMS difference of two curves, as a share of the size of the second. Steps where one is not finite say nothing."""
    known = np.isfinite(losses) & np.isfinite(base)
    if not known.any():
        return 0.0
    size = float(np.sqrt(np.mean(np.square(base[known])))) or 1.0
    return float(np.sqrt(np.mean(np.square(losses[known] - base[known])))) / size


def _told(losses: np.ndarray) -> list[float | None]:
    """JSON has no NaN."""
    return [float(f"{loss:.6g}") if np.isfinite(loss) else None for loss in losses]
