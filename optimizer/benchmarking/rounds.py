"""One round: every contender answers the same fresh inputs, one after another, while the others are stopped.

A round counts as a whole or not at all. When the times of one burst do not add up, its inputs are spent, since a child
that lied once has seen them: the bursts of that attempt are thrown away, and the round is drawn anew for everyone.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from optimizer.benchmarking.bursts import Burst, Draw, Entrant, InputSet, Refused, after_refusal, answers, try_burst
from optimizer.errors import FuseworksError

MAX_SETTLING_BURSTS, STEADY_BURSTS = 8, 2
SETTLE_S = 4.0
STEADY_SHARE = 0.2

Answers = list[list[np.ndarray]]
OnFailure = Callable[[str, FuseworksError], None]


@dataclass
class Round:
    """What is compared of an accepted round: some of its input sets, and each contender's answers to them. Where calls
    are `in_sequence` it is all sets, and the answer to the last: it depends on all before."""

    sets: list[InputSet]
    answers: dict[str, Answers]
    in_sequence: bool = False


def run_round(
    entrants: Mapping[str, Entrant],
    draw: Draw,
    calls: int,
    *,
    rng: np.random.Generator,
    check_all: bool = False,
    on_failure: OnFailure | None = None,
) -> Round:
    """Adds one burst of `calls` calls to every entrant, in a random order. All are stopped before and afterwards.

    `on_failure` may take the entrant that failed out of `entrants`, and the round goes on without it; if it is None, or
    raises, the round ends. `check_all` returns every answer instead of one. Raises what `try_burst` (but for Refused)
    and `after_refusal` raise.
    """
    refusals: Counter[str] = Counter()
    while True:
        done = _attempt(entrants, draw, calls, rng, check_all, on_failure or _raise, refusals)
        if done is not None:
            return done


def settle(one: Entrant, draw: Draw, calls: int, *, rng: np.random.Generator) -> None:
    """Bursts that do not count, until two in a row fault as those before them did; within bounds. The child is stopped
    before and afterwards.

    A burst keeps its inputs and answers, which the warm-up lets go, so that a process grows its heap once more in its
    first bursts. With huge pages one fault costs as much as a call: an eager baseline then looks half as fast as it is.
    Where malloc returns memory to the system at every call, faults never end: they are what a call costs there.

    Raises what `run_round` raises.
    """
    kept, steady = len(one.bursts), 0
    began = time.monotonic()
    for _ in range(MAX_SETTLING_BURSTS):
        run_round({one.name: one}, draw, calls, rng=rng)
        steady = steady + 1 if _is_steady([burst.page_faults for burst in one.bursts[kept:]]) else 0
        if steady == STEADY_BURSTS or time.monotonic() - began > SETTLE_S:
            break
    del one.bursts[kept:]


def _is_steady(page_faults: list[int]) -> bool:
    *earlier, last = page_faults
    return last == 0 or (bool(earlier) and abs(last - earlier[-1]) <= STEADY_SHARE * last)


def _attempt(
    entrants: Mapping[str, Entrant],
    draw: Draw,
    calls: int,
    rng: np.random.Generator,
    check_all: bool,
    on_failure: OnFailure,
    refusals: Counter[str],
) -> Round | None:
    """None when a burst was refused: then nobody keeps a sample of it."""
    sets = [draw() for _ in range(calls)]
    in_sequence = any(one.in_sequence for one in entrants.values())
    if in_sequence:
        indices = [calls - 1]
    else:
        indices = list(range(calls)) if check_all else [int(rng.integers(calls))]
    taken: dict[str, tuple[Burst, Answers]] = {}
    for name in map(str, rng.permutation(list(entrants))):
        try:
            taken[name] = _turn(entrants[name], draw, sets, indices)
        except Refused as refused:
            refusals[name] += 1
            try:
                after_refusal(entrants[name], refused, refusals[name])
            except FuseworksError as error:
                on_failure(name, error)
            return None
        except FuseworksError as error:
            on_failure(name, error)
    for name, (burst, _) in taken.items():
        entrants[name].bursts.append(burst)
    compared = sets if in_sequence else [sets[index] for index in indices]
    return Round(compared, {name: given for name, (_, given) in taken.items()}, in_sequence)


def _turn(one: Entrant, draw: Draw, sets: list[InputSet], indices: list[int]) -> tuple[Burst, Answers]:
    one.child.resume()
    try:
        burst = try_burst(one, draw, sets, indices)
        given = answers(one, burst, indices)
    except Refused:
        one.child.pause()
        raise
    one.child.pause()
    return burst, given


def _raise(name: str, error: FuseworksError) -> None:
    raise error
