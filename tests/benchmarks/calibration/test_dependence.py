"""What was planted is seen, and what was not is not."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.calibration.dependence import Dependence, dependence

SETS = 40


def found(times: np.ndarray) -> Dependence:
    answer = dependence(times, np.random.default_rng(1))
    assert answer is not None
    return answer


@pytest.fixture
def times() -> np.ndarray:
    return np.random.default_rng(0).normal(0, 0.02, (SETS, 3))


def test_independent_processes_have_nothing_in_common(times: np.ndarray) -> None:
    answer = found(times)
    assert answer.seen == []
    assert answer.shared < 0.3


def test_a_drift_of_the_machine_is_seen_as_a_level(times: np.ndarray) -> None:
    answer = found(times + np.linspace(0, 0.2, SETS)[:, None])
    assert answer.seen == ["level"]
    assert answer.level > 0.5
    assert answer.shared > 0.7


def test_noise_that_lasts_longer_than_a_set_is_seen_as_spread(times: np.ndarray) -> None:
    answer = found(times * np.where(np.arange(SETS) // 10 % 2, 10.0, 1.0)[:, None])
    assert "spread" in answer.seen
    assert answer.spread > 0.4


def test_the_one_that_is_started_first_is_seen_where_it_is_another(times: np.ndarray) -> None:
    answer = found(times + np.array([0.06, 0.0, 0.0]))
    assert answer.seen == ["place"]
    # the first is two thirds of 6 % above the mean of the three
    assert answer.place == pytest.approx(0.04, abs=0.012)


def test_what_a_set_shares_is_the_share_of_variance_that_is_its_own() -> None:
    rng = np.random.default_rng(0)
    times = rng.normal(0, 0.03, (2000, 1)) + rng.normal(0, 0.01, (2000, 3))
    # 9 parts of the set's own, 1 of the process
    assert found(times).shared == pytest.approx(0.9, abs=0.02)


def test_times_that_are_all_alike_have_nothing_in_common() -> None:
    answer = found(np.zeros((8, 3)))
    assert (answer.seen, answer.level, answer.shared) == ([], 0.0, 0.0)


def test_three_sets_are_too_few_to_tell(times: np.ndarray) -> None:
    assert dependence(times[:3], np.random.default_rng(0)) is None
