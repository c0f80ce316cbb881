"""A pair of processes gives its median round: disturbed rounds move no verdict, and a fitful contender is found out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from optimizer.benchmarking.bursts import Burst, Entrant, fitting_rounds
from optimizer.benchmarking.judge import Pair, judge
from optimizer.benchmarking.sets import MeasuredSet
from optimizer.result import Comparison, Verdict

PAIR = Pair("baseline", "winner")


def made_of(*rounds: float, base_ns: float = 1e6) -> MeasuredSet:
    """A set whose rounds give these speedups of the winner."""

    def bursts_of(times: list[float]) -> Entrant:
        made = [Burst(calls_ns=np.array([ns]), outside_ns=0, page_faults=0, wait_ns=None) for ns in times]
        return Entrant("", object(), bursts=made)  # type: ignore[arg-type]  # no child: the times are there already

    base, again = bursts_of([base_ns] * len(rounds)), bursts_of([base_ns] * len(rounds))
    winner = bursts_of([base_ns / speedup for speedup in rounds])
    return MeasuredSet({"baseline": base, "baseline_again": again, "winner": winner}, {}, 1.0, 0.0)


def judged_sets(sets: list[MeasuredSet]) -> Comparison:
    nobody: Any = lambda: None  # noqa: E731
    starts = {"baseline": nobody, "winner": nobody}
    drawn = iter(sets)
    outcome = judge(
        starts, [PAIR], list, rng=np.random.default_rng(0), looks=(6,), measure=lambda *_, **__: next(drawn)
    )
    return outcome.comparisons[0]


def test_a_pair_gives_the_median_of_its_rounds_so_that_a_neighbour_in_a_few_of_them_changes_nothing() -> None:
    one = made_of(1.25, 1.25, 1.25, 1.25, 1.25, 1.25, 1.25, 0.5, 0.4, 9.0)
    assert one.log_speedup("baseline", "winner") == pytest.approx(math.log(1.25))
    mean = (7 * math.log(1.25) + math.log(0.5) + math.log(0.4) + math.log(9.0)) / 10
    assert one.mean_log_speedup("baseline", "winner") == pytest.approx(mean)


def test_a_neighbour_that_hits_either_contender_costs_no_verdict() -> None:
    hit = [(0.5, 1.0), (1.0, 2.0), (0.4, 2.1), (1.0, 1.0), (2.0, 0.6), (0.5, 1.0)]
    found = judged_sets([made_of(*[1.25 + at / 1000] * 8, *pair) for at, pair in enumerate(hit)])
    assert (found.verdict, found.reason) == (Verdict.FASTER, None)
    assert found.speedup == pytest.approx(1.2525, abs=1e-4)


def test_a_contender_that_is_slow_now_and_then_by_itself_is_not_called_faster() -> None:
    # in 4 of its 10 rounds it takes four times as long: the median round never sees that, the mean always does
    found = judged_sets([made_of(*[1.25 + at / 1000] * 6, *[0.3 + at / 1000] * 4) for at in range(6)])
    assert found.verdict == Verdict.CANNOT_TELL
    assert found.reason is not None
    assert "one of the two is slow now and then" in found.reason
    assert "the mean is 0.71x and the median 1.25x" in found.reason


@pytest.mark.parametrize(("call_ms", "calls", "rounds"), [(20.0, 3, 15), (60.0, 2, 10), (600.0, 2, 8)])
def test_slow_contenders_have_fewer_rounds(call_ms: float, calls: int, rounds: int) -> None:
    # bursts of 60 ms, 120 ms and 1.2 s; 1.2 s of bursts at most, but eight rounds
    slow, quick = Entrant("slow", None, median_ns=int(call_ms * 1e6)), Entrant("quick", None, median_ns=1000)  # type: ignore[arg-type]
    assert fitting_rounds(15, [quick, slow], calls) == rounds
    assert fitting_rounds(5, [quick, slow], calls) == 5
