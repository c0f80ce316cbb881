"""A fresh process still grows its heap in its first bursts: none of that may enter the screening."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optimizer.benchmarking import bursts
from optimizer.benchmarking.bursts import Entrant
from optimizer.benchmarking.screen import MAX_SETTLING_BURSTS, SCREEN_ROUNDS, screen, settle
from optimizer.sandbox import Reply
from tests.optimizer.benchmarking.simulated import CALL_NS, SimulatedChild, drawer

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def made_up_times_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulated calls take no time at all, so on a busy machine the outer clock would refuse them."""
    monkeypatch.setattr(bursts, "CLOCK_SLACK_NS", 10**12)


class Process(SimulatedChild):
    """Takes `faults[n]` page faults in its n-th burst, the last figure from then on; a burst with faults takes thrice
    as long, and burst number `disturbed` a hundred times."""

    def __init__(self, faults: list[int], *, speedup: float = 1.0, disturbed: int | None = None) -> None:
        super().__init__(RNG, speedup, 0.0, 0.0)
        self.faults, self.disturbed = faults, disturbed
        self.lengths: list[int] = []

    def go(self, arrays: list[np.ndarray], fields: dict[str, Any]) -> Reply:
        number = len(self.lengths)
        faults = self.faults[min(number, len(self.faults) - 1)]
        self.lengths.append(self.calls)
        reply = super().go(arrays, fields)
        slower = (3 if faults else 1) * (100 if number == self.disturbed else 1)
        return Reply({**reply.fields, "page_faults": faults}, [reply.arrays[0] * slower])


def entrant(child: Process) -> Entrant:
    return Entrant("one", child)  # type: ignore[arg-type]


def screened(candidate: Process, baseline: Process | Entrant) -> float:
    base = baseline if isinstance(baseline, Entrant) else entrant(baseline)
    return screen(entrant(candidate), base, drawer(RNG), rng=RNG, items=1).speedup


def test_a_baseline_that_still_grows_its_heap_does_not_make_the_candidate_look_fast() -> None:
    assert screened(Process([0], speedup=2.0), Process([9, 7, 5, 3, 0])) == pytest.approx(2.0, rel=1e-3)


def test_nor_does_a_candidate_look_slow_that_does() -> None:
    assert screened(Process([9, 7, 5, 3, 0], speedup=2.0), Process([0])) == pytest.approx(2.0, rel=1e-3)


def test_bursts_end_when_two_in_a_row_took_no_fault_and_none_of_them_is_kept() -> None:
    growing = Process([4, 0, 2, 0, 0, 0])
    one = entrant(growing)
    settle(one, drawer(RNG), calls=4, rng=RNG)
    assert growing.lengths == [4] * 5
    assert one.bursts == []


def test_faults_that_never_end_are_what_a_call_costs() -> None:
    trimming = Process([5])
    settle(entrant(trimming), drawer(RNG), calls=4, rng=RNG)
    assert len(trimming.lengths) == MAX_SETTLING_BURSTS
    assert screened(Process([0]), trimming) == pytest.approx(3.0, rel=1e-3)


def test_one_round_that_was_disturbed_does_not_move_the_speedup() -> None:
    # two settling bursts, then the rounds: the disturbed burst is the second of them
    disturbed = Process([0], disturbed=3)
    assert screened(Process([0], speedup=2.0), disturbed) == pytest.approx(2.0, rel=1e-3)
    assert len(disturbed.lengths) == 2 + SCREEN_ROUNDS


def test_a_baseline_is_settled_once_and_again_only_for_longer_bursts() -> None:
    baseline = Process([0])
    base = entrant(baseline)
    screened(Process([0]), base)
    screened(Process([0]), base)
    assert len(baseline.lengths) == 2 + 2 * SCREEN_ROUNDS
    # the median of its calls decides how many fit into a burst: with faster ones there are more
    before = baseline.lengths[-1]
    base.median_ns = 5_000_000
    candidate = Process([0])
    quick = entrant(candidate)
    quick.median_ns = 5_000_000
    screen(quick, base, drawer(RNG), rng=RNG, items=1)
    assert baseline.lengths[-1] > before
    assert len(baseline.lengths) == 2 + 2 * SCREEN_ROUNDS + 2 + SCREEN_ROUNDS


def test_the_candidates_figures_come_from_the_rounds_alone() -> None:
    found = screen(entrant(Process([9, 9, 0])), entrant(Process([0])), drawer(RNG), rng=RNG, items=1).performance
    assert found.page_faults_per_call == 0
    assert found.mean_ms == pytest.approx(CALL_NS / 1e6)
    assert found.calls == SCREEN_ROUNDS * 4  # bursts of 60 ms at 15 ms a call
