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
    """Student's t over one mean log-speedup per pair of processes, brought back to speedups."""
    values = np.asarray(log_speedups, dtype=np.float64)
    if values.ndim != 1 or values.size < 2:
        raise ValueError("an interval needs at least two pairs of processes")
    centre = float(values.mean())
    half = _quantile(confidence, values.size - 1) * float(values.std(ddof=1)) / math.sqrt(values.size)
    return SpeedupInterval(math.exp(centre - half), math.exp(centre), math.exp(centre + half))


@lru_cache(maxsize=256)
def _quantile(confidence: float, degrees: int) -> float:
    return float(stats.t.ppf(0.5 + confidence / 2, degrees))


def noise_floor(aa_log_speedups: Sequence[float], confidence: float = CONFIDENCE) -> float:
    """How far from 1 the interval of an A/A (the baseline against itself) reaches, of as many pairs and rounds."""
    low, _, high = student_interval(aa_log_speedups, confidence)
    return max(abs(low - 1.0), abs(high - 1.0))


def pooled_noise_floor(own: Sequence[float], earlier: Sequence[float], confidence: float = CONFIDENCE) -> float:
    """The floor of an A/A of as many pairs as `own`, its spread told from `earlier` A/A pairs of the same run as well.

    Few pairs say where their mean lies, but little about how far such means scatter: with five of them Student's t is
    4.6 to 5.6, and the floor would be mostly ignorance. The centre is `own`'s, so is the number of pairs that the width
    stands for. Spreads are pooled unless an F test at 5 % says that `own` scatters more: contenders may differ in that.
    """
    first, second = np.asarray(own, dtype=np.float64), np.asarray(earlier, dtype=np.float64)
    if first.size < 2 or second.size < 2:
        return noise_floor(own, confidence)
    degrees = first.size - 1, second.size - 1
    variances = float(first.var(ddof=1)), float(second.var(ddof=1))
    if variances[0] > float(stats.f.ppf(0.95, *degrees)) * variances[1]:
        return noise_floor(own, confidence)
    spread = math.sqrt(np.dot(degrees, variances) / sum(degrees))
    half = _quantile(confidence, sum(degrees)) * spread / math.sqrt(first.size)
    centre = float(first.mean())
    return max(abs(math.exp(centre - half) - 1.0), abs(math.exp(centre + half) - 1.0))


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
