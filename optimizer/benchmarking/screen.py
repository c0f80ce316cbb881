"""The cheap first measurement: one process of a candidate and one of the baseline, a few rounds. No verdict.

What it gives chooses candidates; the judgement afterwards uses none of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from optimizer.benchmarking import bursts
from optimizer.benchmarking.bursts import Draw, Entrant
from optimizer.benchmarking.sets import Check
from optimizer.benchmarking.summary import performance
from optimizer.errors import FuseworksError
from optimizer.result import Performance

SCREEN_ROUNDS = 4
SCREEN_WARM_UP_S = 1.0


class Screened(NamedTuple):
    speedup: float
    performance: Performance


def screen(
    candidate: Entrant,
    baseline: Entrant,
    draw: Draw,
    *,
    rng: np.random.Generator,
    items: int,
    rounds: int = SCREEN_ROUNDS,
    warm_up_s: float = SCREEN_WARM_UP_S,
    check: Check | None = None,
) -> Screened:
    """Both children live before and after, and run when this returns. A baseline that was warmed up once stays so.

    Raises ChildFailed; FuseworksError (`benchmarking:user:clock`, `benchmarking:user:answers-changed`).
    """
    pair = [candidate, baseline]
    before = {id(one): len(one.bursts) for one in pair}
    try:
        for one, other in ((candidate, baseline), (baseline, candidate)):
            if not one.median_ns:
                other.child.pause()
                bursts.warm_up(one, draw, warm_up_s)
                other.child.resume()
        calls = bursts.calls_per_burst(pair, sum(array.nbytes for array in draw()))
        for _ in range(rounds):
            sets = [draw() for _ in range(calls)]
            index = int(rng.integers(calls))
            given = {}
            for at in rng.permutation(2):
                one, other = pair[at], pair[1 - at]
                other.child.pause()
                bursts.run_burst(one, draw, sets)
                given[at] = bursts.answers(one, [index])[0]
                other.child.resume()
            _agree(candidate.name, check, given[0], given[1])
        bursts.read_memory(candidate)
    finally:
        for one in pair:
            one.child.resume()
    mine = candidate.bursts[before[id(candidate)] :]
    base = baseline.bursts[before[id(baseline)] :]
    speedup = math.exp(float(np.mean([math.log(b.mean_ns / m.mean_ns) for b, m in zip(base, mine, strict=True)])))
    return Screened(speedup, performance([candidate], items=items, screened=True))


def _agree(name: str, check: Check | None, mine: Sequence[np.ndarray], base: Sequence[np.ndarray]) -> None:
    reason = check(mine, base) if check else None
    if reason is not None:
        raise FuseworksError("benchmarking:user:answers-changed", place=name, name=name, text=reason)
