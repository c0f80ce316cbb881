"""Trials: recorded sets drawn anew, their processes in random roles, judged by the judge itself.

In a set three different processes become the baseline, the baseline once more and the other; they are identical and
were started in random order, so that every assignment is as good as any other and the truth is a speedup of exactly 1.
A planted difference multiplies the other's times. The judge sees what it sees in a run: the floor comes from the same
sets, the looks are its own.

Sets are drawn whole: their processes share what happened to the machine meanwhile. `BLOCKS` keeps six neighbours
together as they were recorded, so that a disturbance which lasts longer than a set stays one; `SINGLE` draws each set
by itself, and more various trials.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from benchmarks.calibration.recording import RecordedProcess, RecordedSet
from optimizer.benchmarking.bursts import Burst, Entrant
from optimizer.benchmarking.judge import AGAIN_SUFFIX, LOOKS, Pair, judge
from optimizer.benchmarking.sets import MeasuredSet
from optimizer.benchmarking.statistics import same_margin
from optimizer.result import Verdict
from optimizer.sandbox import Child

BASE, OTHER = "baseline", "other"
AGAIN = BASE + AGAIN_SUFFIX
ROLES = (BASE, AGAIN, OTHER)
BLOCK = 6
Scheme = Literal["blocks", "single"]
BLOCKS: Scheme = "blocks"
SINGLE: Scheme = "single"


_NO_CHILD: Any = None  # nothing runs in a replay: the judge only reads the bursts


class Lost(Exception):
    """The set of this trial came to nothing when it was recorded: a run would have ended here, without a verdict."""


class Trial(NamedTuple):
    """One judgement. `verdict` is None where a lost set ended it. `held`: the truth lies within the interval, whose
    half width is told as a share. `apart`: the interval by itself leaves out 1, on the side of the truth. `beyond`:
    the truth is further from 1 than the margin within which `same` is said."""

    verdict: Verdict | None
    held: bool
    apart: bool
    beyond: bool
    pairs: int
    looks: int
    seconds: float
    floor: float
    half_width: float


@dataclass
class ReplayedSet(MeasuredSet):
    """A recorded set with its processes in roles. It is drawn many times: its log-speedups are computed once."""

    known: dict[tuple[str, str], float] = field(default_factory=dict)

    def log_speedup(self, base: str, other: str) -> float:
        if (base, other) not in self.known:
            self.known[base, other] = super().log_speedup(base, other)
        return self.known[base, other]


class Population:
    """The sets of one condition as they were recorded, from which trials are drawn."""

    def __init__(self, sets: Sequence[RecordedSet]) -> None:
        if not any(one.lost is None for one in sets):
            raise ValueError("no set was recorded to its end")
        few = [len(one.processes) for one in sets if one.lost is None and len(one.processes) < len(ROLES)]
        if few:
            raise ValueError(f"a judgement needs {len(ROLES)} processes in a set, and there are {few[0]}")
        self.sets = list(sets)
        self._under: dict[float, list[list[ReplayedSet]]] = {}

    def under(self, speedup: float) -> list[list[ReplayedSet]]:
        """By set, every assignment of its processes to the roles, the other made `speedup` times as fast; none of a
        lost set."""
        if speedup not in self._under:
            self._under[speedup] = [_assignments(one, speedup) for one in self.sets]
        return self._under[speedup]


def _assignments(one: RecordedSet, speedup: float) -> list[ReplayedSet]:
    found = []
    for chosen in itertools.permutations(one.processes, len(ROLES)):
        entrants = {
            role: _entrant(role, process, 1.0 / speedup if role == OTHER else 1.0)
            for role, process in zip(ROLES, chosen, strict=True)
        }
        found.append(ReplayedSet(entrants, {}, one.seconds, one.load_average))
    return found


def _entrant(role: str, process: RecordedProcess, factor: float) -> Entrant:
    bursts = [
        Burst(calls_ns=np.array([mean * factor]), outside_ns=round(mean * factor), page_faults=0, wait_ns=None)
        for mean in process.burst_means_ns
    ]
    return Entrant(role, _NO_CHILD, bursts=bursts)


def drawn(count: int, recorded: int, scheme: Scheme, rng: np.random.Generator) -> np.ndarray:
    """Indices of `count` sets out of `recorded`, with replacement. Blocks go on at the beginning after the last set."""
    if scheme == SINGLE:
        return rng.integers(recorded, size=count)
    firsts = rng.integers(recorded, size=math.ceil(count / BLOCK))
    within: np.ndarray = (firsts[:, None] + np.arange(BLOCK)) % recorded
    return within.ravel()[:count]


def trial(
    population: Population,
    rng: np.random.Generator,
    *,
    speedup: float = 1.0,
    looks: Sequence[int] = LOOKS,
    scheme: Scheme = BLOCKS,
    order: np.ndarray | None = None,
) -> Trial:
    """`order`: which of the recorded sets there are to draw from, one after another; all of them if None."""
    under = population.under(speedup)
    there = np.arange(len(under)) if order is None else order
    indices = iter(there[drawn(looks[-1], len(there), scheme, rng)])
    used: list[ReplayedSet] = []

    def measure(*_: Any, **__: Any) -> ReplayedSet:
        assignments = under[next(indices)]
        if not assignments:
            raise Lost
        used.append(assignments[int(rng.integers(len(assignments)))])
        return used[-1]

    try:
        outcome = judge({BASE: _never, OTHER: _never}, [Pair(BASE, OTHER)], list, rng=rng, looks=looks, measure=measure)
    except Lost:
        return Trial(None, True, False, False, len(used), 0, sum(one.seconds for one in used), math.nan, math.nan)
    (found,) = outcome.comparisons
    return Trial(
        verdict=found.verdict,
        held=found.interval.low <= speedup <= found.interval.high,
        apart=(speedup > 1.0 and found.interval.low > 1.0) or (speedup < 1.0 and found.interval.high < 1.0),
        beyond=abs(speedup - 1.0) > same_margin(found.noise_floor),
        pairs=found.pairs,
        looks=found.looks,
        seconds=sum(one.seconds for one in used),
        floor=found.noise_floor,
        half_width=math.expm1(math.log(found.interval.high / found.interval.low) / 2),
    )


def _never() -> Child:
    raise AssertionError("nothing is started in a replay")
