"""From log-speedups of pairs of fresh processes to an interval and a verdict. numpy and scipy only.

The process is the unit: a process is itself a random effect (layout, page faults), so calls and rounds within one are
never treated as independent samples, and nothing is bootstrapped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import stats

from optimizer.result import Verdict

CONFIDENCE = 0.99
MAX_LOOKS = 3
SAME_SHARE, SAME_CAP = 0.02, 0.10


class SpeedupInterval(NamedTuple):
    low: float
    speedup: float
    high: float


def look_confidence(confidence: float, looks: int) -> float:
    """The error is split evenly among the planned looks, so that stopping early keeps the stated level."""
    if not 1 <= looks <= MAX_LOOKS:
        raise ValueError(f"{looks} looks planned; 1 to {MAX_LOOKS} are allowed")
    return 1.0 - (1.0 - confidence) / looks


def student_interval(log_speedups: Sequence[float], confidence: float = CONFIDENCE) -> SpeedupInterval:
    """Student's t over one log-speedup per pair of processes, brought back to speedups."""
    values = np.asarray(log_speedups, dtype=np.float64)
    if values.ndim != 1 or values.size < 2:
        raise ValueError("an interval needs at least two pairs of processes")
    centre = float(values.mean())
    half = _quantile(confidence, values.size - 1) * float(values.std(ddof=1)) / math.sqrt(values.size)
    return SpeedupInterval(math.exp(centre - half), math.exp(centre), math.exp(centre + half))


@lru_cache(maxsize=256)
def _quantile(confidence: float, degrees: int) -> float:
    return float(stats.t.ppf(0.5 + confidence / 2, degrees))


def noise_floor(aa_log_speedups: Sequence[float]) -> float:
    """How far from 1 an A/A (the baseline against itself, in the same sets) came out.

    Not how far its interval reaches: how much pairs scatter is in the width of the judged interval already, and taken
    off a second time it hides differences that the machine can well tell (`benchmarks/calibration` has both counted).
    """
    return abs(math.expm1(float(np.mean(aa_log_speedups))))


def verdict(low: float, high: float, floor: float) -> Verdict:
    """[low, high] is the interval of the speedup, `floor` the machine's own A/A noise floor."""
    if low > 1.0 + floor:
        return Verdict.FASTER
    if high < 1.0 - floor:
        return Verdict.SLOWER
    margin = same_margin(floor)
    if low >= 1.0 - margin and high <= 1.0 + margin:
        return Verdict.SAME
    return Verdict.CANNOT_TELL


def same_margin(floor: float) -> float:
    """How far from 1 the interval of what is called `same` may reach. A floor that reaches far is ignorance, not
    equality: there is a cap."""
    return min(max(floor, SAME_SHARE), SAME_CAP)
