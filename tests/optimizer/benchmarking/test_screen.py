"""A fresh process still grows its heap in its first bursts: none of that may enter the screening."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer.benchmarking import bursts
from optimizer.benchmarking.bursts import Entrant
from optimizer.benchmarking.screen import SCREEN_ROUNDS, screen
from tests.optimizer.benchmarking.simulated import CALL_NS, GrowingChild, drawer

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def made_up_times_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulated calls take no time at all, so on a busy machine the outer clock would refuse them."""
    monkeypatch.setattr(bursts, "CLOCK_SLACK_NS", 10**12)


def entrant(child: GrowingChild) -> Entrant:
    return Entrant("one", child)  # type: ignore[arg-type]


def screened(candidate: GrowingChild, baseline: GrowingChild | Entrant) -> float:
    base = baseline if isinstance(baseline, Entrant) else entrant(baseline)
    return screen(entrant(candidate), base, drawer(RNG), rng=RNG, items=1).speedup


def test_a_baseline_that_still_grows_its_heap_does_not_make_the_candidate_look_fast() -> None:
    assert screened(GrowingChild([0], speedup=2.0), GrowingChild([9, 7, 5, 3, 0])) == pytest.approx(2.0, rel=1e-3)


def test_nor_does_a_candidate_look_slow_that_does() -> None:
    assert screened(GrowingChild([9, 7, 5, 3, 0], speedup=2.0), GrowingChild([0])) == pytest.approx(2.0, rel=1e-3)


def test_faults_that_never_end_are_what_a_call_costs() -> None:
    assert screened(GrowingChild([0]), GrowingChild([5])) == pytest.approx(3.0, rel=1e-3)


def test_one_round_that_was_disturbed_does_not_move_the_speedup() -> None:
    # two settling bursts, then the rounds: the disturbed burst is the second of them
    disturbed = GrowingChild([0], disturbed=3)
    assert screened(GrowingChild([0], speedup=2.0), disturbed) == pytest.approx(2.0, rel=1e-3)
    assert len(disturbed.lengths) == 2 + SCREEN_ROUNDS


def test_a_baseline_is_settled_once_and_again_only_for_longer_bursts() -> None:
    baseline = GrowingChild([0])
    base = entrant(baseline)
    screened(GrowingChild([0]), base)
    screened(GrowingChild([0]), base)
    assert len(baseline.lengths) == 2 + 2 * SCREEN_ROUNDS
    # the median of its calls decides how many fit into a burst: with faster ones there are more
    before = baseline.lengths[-1]
    base.median_ns = 5_000_000
    candidate = GrowingChild([0])
    quick = entrant(candidate)
    quick.median_ns = 5_000_000
    screen(quick, base, drawer(RNG), rng=RNG, items=1)
    assert baseline.lengths[-1] > before
    assert len(baseline.lengths) == 2 + 2 * SCREEN_ROUNDS + 2 + SCREEN_ROUNDS


def test_the_candidates_figures_come_from_the_rounds_alone() -> None:
    found = screen(
        entrant(GrowingChild([9, 9, 0])), entrant(GrowingChild([0])), drawer(RNG), rng=RNG, items=1
    ).performance
    assert found.page_faults_per_call == 0
    assert found.mean_ms == pytest.approx(CALL_NS / 1e6)
    assert found.calls == SCREEN_ROUNDS * 4  # bursts of 60 ms at 15 ms a call
