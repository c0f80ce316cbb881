"""One set: a fresh process of every contender, measured in interleaved rounds, all others stopped meanwhile.

All contenders of a round answer the same fresh inputs, so that what they answered while they were timed can be compared
afterwards: with the baseline's answers, and in one round of a set with the float64 reference's instead.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from optimizer.benchmarking import bursts
from optimizer.benchmarking.allowance import greedy
from optimizer.benchmarking.bursts import Draw, Entrant, Loaded
from optimizer.benchmarking.gaps import outliers
from optimizer.benchmarking.rounds import Round, run_round, settle
from optimizer.errors import FuseworksError
from optimizer.sandbox import Child
from optimizer.verifying.asking import ask

ROUNDS = 15  # odd: the median is a round

Start = Callable[[], "Loaded | Child"]
# (the contender's answer, the expected one) -> why they do not agree, or None: `Verifier.agreement(precision)`
Check = Callable[[Sequence[np.ndarray], Sequence[np.ndarray]], "str | None"]


@dataclass
class MeasuredSet:
    """What one set of fresh processes gave. A contender that failed is in `failed` only."""

    entrants: dict[str, Entrant]
    failed: dict[str, FuseworksError]
    seconds: float
    load_average: float

    def log_speedup(self, base: str, other: str) -> float:
        """What this pair of processes gives: the median over rounds of the log of base time / other time.

        The median, since whatever else the machine does hits single bursts: a neighbour that takes a core for some of
        ten rounds moves their mean by its own share (`benchmarks/calibration`). What a contender itself does now and
        then it hides: `mean_log_speedup` is there to see that.
        """
        return float(np.median(round_log_speedups(self.entrants[base], self.entrants[other])))

    def mean_log_speedup(self, base: str, other: str) -> float:
        return float(np.mean(round_log_speedups(self.entrants[base], self.entrants[other])))


def round_log_speedups(base: Entrant, other: Entrant) -> list[float]:
    """One a round, of two processes of one set: the log of base time / other time."""
    return [math.log(b.mean_ns / o.mean_ns) for b, o in zip(base.bursts, other.bursts, strict=True)]


def entrant(name: str, loaded: Loaded | Child) -> Entrant:
    """Takes a child, or any object with `child` and `load_s` (`rss_bytes_after_import` and `threads`, where known)."""
    child = getattr(loaded, "child", None)
    if child is None:
        assert isinstance(loaded, Child) or hasattr(loaded, "call")
        return Entrant(name, loaded)  # type: ignore[arg-type]
    new = Entrant(name, child, loaded.load_s, getattr(loaded, "rss_bytes_after_import", None))  # type: ignore[union-attr]
    new.threads = getattr(loaded, "threads", None)
    return new


@dataclass
class _Running:
    """The set while it is measured: kills what it started, drops what fails."""

    baseline: str
    essential: Collection[str]
    checks: Mapping[str, Check]
    reference: Child | None
    own_references: Mapping[str, Child]
    entrants: dict[str, Entrant] = field(default_factory=dict)
    failed: dict[str, FuseworksError] = field(default_factory=dict)

    def drop(self, name: str, error: FuseworksError) -> None:
        """Takes one contender out; the set goes on without it unless it is essential, or the machine is to blame."""
        self.failed[name] = error
        if name in self.entrants:
            self.entrants.pop(name).child.kill()
        if name in self.essential or error.id == "benchmarking:ours:busy":
            raise error

    def kill(self) -> None:
        for running in self.entrants.values():
            running.child.kill()


def measure_set(
    starts: Mapping[str, Start],
    draw: Draw,
    *,
    baseline: str,
    rng: np.random.Generator,
    rounds: int = ROUNDS,
    warm_up_s: float = bursts.WARM_UP_S,
    essential: Collection[str] = (),
    checks: Mapping[str, Check] | None = None,
    reference: Child | None = None,
    own_references: Mapping[str, Child] | None = None,
    check_all: bool = False,
) -> MeasuredSet:
    """Starts, warms up, measures and kills one process of each contender. `rounds` at most: slow contenders have fewer.

    The baseline and the `essential` contenders raise when they fail; any other is dropped. `check_all` compares every
    timed answer instead of one a round. `own_references`: a contender that is another model than the baseline is held
    against its own float64 reference, once a set, and never against the baseline's answers.
    """
    began = time.perf_counter()
    running = _Running(baseline, {baseline, *essential}, checks or {}, reference, own_references or {})
    references = [one for one in (reference, *running.own_references.values()) if one is not None]
    for one in references:
        one.pause()
    pool = ThreadPoolExecutor(max_workers=max(1, min(len(starts), os.cpu_count() or 1)))
    try:
        order = [str(name) for name in rng.permutation(list(starts))]
        _launch(running, {name: pool.submit(starts[name]) for name in order})
        for name in list(running.entrants):
            _guarded(running, name, partial(_warm_up, running.entrants[name], draw, warm_up_s))
        set_bytes = sum(array.nbytes for array in draw())
        calls = bursts.calls_per_burst(list(running.entrants.values()), set_bytes)
        rounds = bursts.fitting_rounds(rounds, list(running.entrants.values()), calls)
        for name in list(running.entrants):
            _guarded(running, name, partial(settle, running.entrants[name], draw, calls, rng=rng))
        referee_round = int(rng.integers(rounds))
        for number in range(rounds):
            _round(running, draw, calls, rng, check_all=check_all, against_reference=number == referee_round)
        for name, error in [*outliers(running.entrants), *greedy(running.entrants)]:
            running.drop(name, error)
        for name in list(running.entrants):
            _guarded(running, name, partial(_finish, running.entrants[name]))
        return MeasuredSet(running.entrants, running.failed, time.perf_counter() - began, os.getloadavg()[0])
    finally:
        running.kill()
        pool.shutdown()
        for one in references:
            one.resume()


def _guarded(running: _Running, name: str, work: Callable[[], None]) -> None:
    try:
        work()
    except FuseworksError as error:
        running.drop(name, error)


def _launch(running: _Running, starting: Mapping[str, Future[Loaded | Child]]) -> None:
    """Waits until all are up, side by side, and stops each. Those that came up are known before a failure is raised."""
    wait(starting.values())
    failed: list[tuple[str, BaseException]] = []
    for name, future in starting.items():
        error = future.exception()
        if error is None:
            new = running.entrants[name] = entrant(name, future.result())
            new.child.pause()
        else:
            failed.append((name, error))
    for name, error in failed:
        if not isinstance(error, FuseworksError):
            raise error
        running.drop(name, error)


def _warm_up(one: Entrant, draw: Draw, warm_up_s: float) -> None:
    one.child.resume()
    bursts.warm_up(one, draw, warm_up_s)
    one.child.pause()


def _finish(done: Entrant) -> None:
    done.child.resume()
    bursts.read_memory(done)


def _round(
    running: _Running, draw: Draw, calls: int, rng: np.random.Generator, *, check_all: bool, against_reference: bool
) -> None:
    done = run_round(running.entrants, draw, calls, rng=rng, check_all=check_all, on_failure=running.drop)
    expected = done.answers[running.baseline]
    if against_reference and running.reference is not None:
        expected = _true(running.reference, done)
    for name in list(running.entrants):
        own = running.own_references.get(name)
        if own is None:
            _guarded(running, name, partial(_compare, running, name, done.answers[name], expected))
        elif against_reference:
            _guarded(running, name, partial(_compare, running, name, done.answers[name], _true(own, done)))


def _true(reference: Child, done: Round) -> list[list[np.ndarray]]:
    reference.resume()
    found = ask(reference, done.sets, timeout_s=bursts.TIMEOUT_S).whole()
    reference.pause()
    return found[-1:] if done.in_sequence else found


def _compare(running: _Running, name: str, given: list[list[np.ndarray]], expected: list[list[np.ndarray]]) -> None:
    check = running.checks.get(name)
    if check is None:
        return
    for mine, true in zip(given, expected, strict=True):
        # the reference answers in float64; what is compared is the value, in the contender's own dtype
        alike = [
            t.astype(m.dtype) if m.dtype.kind == t.dtype.kind == "f" else t for m, t in zip(mine, true, strict=False)
        ]
        reason = check(mine, alike if len(mine) == len(true) else true)
        if reason is not None:
            raise FuseworksError("benchmarking:user:answers-changed", place=name, name=name, text=reason)
