"""What the recorded sets have in common with their neighbours: where it is much, single sets are no fair draws.

Each is tested by permutation, so that no distribution is assumed. `level`: drift of the machine from set to set, which
pairs within a set do not see. `spread`: sets with much noise follow one another; then only trials drawn in blocks speak
of the machine. `place`: the process that was started first is another; roles are drawn at random for it.
"""

from __future__ import annotations

import numpy as np

from optimizer.spec import Strict

PERMUTATIONS = 1000
SEEN = 0.01
MIN_SETS = 4


class Dependence(Strict):
    """`level` and `spread`: correlation of a set with the next; `place`: the largest mean effect of one, as a share;
    `shared`: the share of the processes' variance that is their set's. Each `_p` is that of a permutation test."""

    level: float
    level_p: float
    spread: float
    spread_p: float
    place: float
    place_p: float
    shared: float

    @property
    def seen(self) -> list[str]:
        return [name for name in ("level", "spread", "place") if getattr(self, f"{name}_p") <= SEEN]


def dependence(times: np.ndarray, rng: np.random.Generator) -> Dependence | None:
    """`times`: [set, process in the order of starting], logarithms. None where there are too few sets to tell."""
    if len(times) < MIN_SETS:
        return None
    within = times - times.mean(axis=1, keepdims=True)
    # the logarithm: one wild set must not be all that is seen
    spreads = np.log(np.maximum(within.std(axis=1), 1e-9))
    level, level_p = _neighbours(times.mean(axis=1), rng)
    spread, spread_p = _neighbours(spreads, rng)
    place = _place(within)
    shuffled = [_place(rng.permuted(within, axis=1)) for _ in range(PERMUTATIONS)]
    return Dependence(
        level=level,
        level_p=level_p,
        spread=spread,
        spread_p=spread_p,
        place=float(np.expm1(place)),
        place_p=_p(place, np.array(shuffled)),
        shared=_shared(times),
    )


def _neighbours(values: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """Correlation of each value with the next, and how often chance alone gives as much."""
    centred = values - values.mean()
    total = float(np.dot(centred, centred))
    if total == 0.0:
        return 0.0, 1.0

    def lagged(ordered: np.ndarray) -> float:
        return float(np.dot(ordered[1:], ordered[:-1])) / total

    shuffled = np.array([lagged(rng.permutation(centred)) for _ in range(PERMUTATIONS)])
    return lagged(centred), _p(lagged(centred), shuffled)


def _place(within: np.ndarray) -> float:
    return float(np.abs(within.mean(axis=0)).max())


def _p(found: float, shuffled: np.ndarray) -> float:
    return float((1 + (shuffled >= found).sum()) / (1 + len(shuffled)))


def _shared(times: np.ndarray) -> float:
    """Intraclass correlation of a one-way analysis of variance; 0 at least."""
    size = times.shape[1]
    between = size * float(times.mean(axis=1).var(ddof=1))
    within = float((times - times.mean(axis=1, keepdims=True)).var()) * size / (size - 1)
    total = between + (size - 1) * within
    return max(0.0, (between - within) / total) if total else 0.0
