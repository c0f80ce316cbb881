"""The cheap first measurement: one process of a candidate and one of the baseline, a few rounds. No verdict.

What it gives chooses candidates; the judgement afterwards uses none of it. It must be fair all the same: a process is
first brought to where its bursts cost what they will go on to cost.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from optimizer.benchmarking import bursts
from optimizer.benchmarking.bursts import Draw, Entrant
from optimizer.benchmarking.rounds import run_round, settle
from optimizer.benchmarking.sets import Check
from optimizer.benchmarking.summary import performance
from optimizer.errors import FuseworksError
from optimizer.result import Performance

SCREEN_ROUNDS, MIN_ROUNDS = 7, 4
SCREEN_S = 4.0  # after this, no more than MIN_ROUNDS
SCREEN_WARM_UP_S = 1.0
CANDIDATE, BASELINE = "candidate", "baseline"


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

    The speedup is the median over rounds, so that one which another process disturbed does not count.

    Raises ChildFailed; FuseworksError (`benchmarking:user:clock`, `benchmarking:user:answers-changed`).
    """
    pair = {CANDIDATE: candidate, BASELINE: baseline}
    before = {name: len(one.bursts) for name, one in pair.items()}
    for one in pair.values():
        one.child.pause()
    try:
        for one in pair.values():
            if not one.median_ns:
                one.child.resume()
                bursts.warm_up(one, draw, warm_up_s)
                one.child.pause()
        calls = bursts.calls_per_burst(list(pair.values()), sum(array.nbytes for array in draw()))
        for one in pair.values():
            if calls > max((len(burst.calls_ns) for burst in one.bursts), default=0):
                settle(one, draw, calls, rng=rng)
        began = time.monotonic()
        for number in range(rounds):
            if number >= MIN_ROUNDS and time.monotonic() - began > SCREEN_S:
                break
            done = run_round(pair, draw, calls, rng=rng)
            _agree(candidate.name, check, done.answers[CANDIDATE][0], done.answers[BASELINE][0])
        candidate.child.resume()
        bursts.read_memory(candidate)
    finally:
        for one in pair.values():
            one.child.resume()
    mine = candidate.bursts[before[CANDIDATE] :]
    base = baseline.bursts[before[BASELINE] :]
    speedup = float(np.median([b.mean_ns / m.mean_ns for b, m in zip(base, mine, strict=True)]))
    return Screened(speedup, performance([candidate], items=items, screened=True))


def _agree(name: str, check: Check | None, mine: Sequence[np.ndarray], base: Sequence[np.ndarray]) -> None:
    reason = check(mine, base) if check else None
    if reason is not None:
        raise FuseworksError("benchmarking:user:answers-changed", place=name, name=name, text=reason)
