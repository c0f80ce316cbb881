"""Recorded sets are drawn whole, their processes put into roles, and judged by the judge's own code."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from benchmarks.calibration.replay import AGAIN, BASE, BLOCK, BLOCKS, OTHER, ROLES, SINGLE, Population, drawn, trial
from optimizer.result import Verdict
from tests.benchmarks.calibration.synthetic import LOST, one_set, simulated

EQUAL = one_set([[10.0, 10.0]] * 3)


def means(population: Population, speedup: float = 1.0) -> list[dict[str, list[float]]]:
    """By assignment of the first set, the burst means of each role in milliseconds."""
    return [
        {role: [burst.mean_ns / 1e6 for burst in one.entrants[role].bursts] for role in ROLES}
        for one in population.under(speedup)[0]
    ]


def test_no_process_is_ever_paired_with_itself() -> None:
    population = Population([one_set([[8.0, 9.0], [10.0, 11.0], [12.0, 13.0], [14.0, 15.0]])])
    assigned = means(population)
    assert len(assigned) == 4 * 3 * 2
    assert all(len({tuple(times) for times in roles.values()}) == 3 for roles in assigned)
    assert all(one.log_speedup(BASE, OTHER) != 0.0 for one in population.under(1.0)[0])


def test_every_process_takes_every_role_equally_often() -> None:
    assigned = means(Population([one_set([[8.0], [10.0], [12.0]])]))
    seen = Counter((role, times[0]) for roles in assigned for role, times in roles.items())
    assert seen == {(role, ms): 2 for role in ROLES for ms in (8.0, 10.0, 12.0)}


def test_a_planted_difference_is_the_others_alone() -> None:
    population = Population([one_set([[8.0, 9.0], [10.0, 12.0], [16.0, 18.0]])])
    plain, faster = population.under(1.0)[0], population.under(1.25)[0]
    for before, after in zip(plain, faster, strict=True):
        assert after.log_speedup(BASE, OTHER) == pytest.approx(before.log_speedup(BASE, OTHER) + math.log(1.25))
        assert after.log_speedup(BASE, AGAIN) == before.log_speedup(BASE, AGAIN)
    # 8 and 9 ms against 16 and 18 ms: half as fast in both rounds
    by_hand = [one for one in plain if one.entrants[BASE].bursts[0].mean_ns == 8e6]
    assert {round(one.log_speedup(BASE, OTHER), 6) for one in by_hand} == {
        round(-math.log(2), 6),
        round((math.log(8 / 10) + math.log(9 / 12)) / 2, 6),
    }


def test_blocks_keep_six_neighbours_together_and_go_on_at_the_beginning() -> None:
    indices = drawn(18, 7, BLOCKS, np.random.default_rng(0))
    assert len(indices) == 18
    for block in indices.reshape(-1, BLOCK):
        assert (np.diff(block) % 7 == 1).all()
    assert set(drawn(700, 7, BLOCKS, np.random.default_rng(1))) == set(range(7))


def test_single_sets_are_drawn_each_by_itself() -> None:
    steps = np.diff(drawn(7000, 7, SINGLE, np.random.default_rng(0))) % 7
    assert all(abs((steps == step).mean() - 1 / 7) < 0.02 for step in range(7))


def test_processes_that_are_exactly_equal_are_the_same_at_the_first_look() -> None:
    one = trial(Population([EQUAL] * 3), np.random.default_rng(0))
    assert (one.verdict, one.pairs, one.looks) == (Verdict.SAME, 6, 1)
    assert one.seconds == pytest.approx(6 * 2.0)
    assert one.floor == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(("speedup", "verdict"), [(1.1, Verdict.FASTER), (1 / 1.1, Verdict.SLOWER)])
def test_a_difference_without_noise_is_found(speedup: float, verdict: Verdict) -> None:
    assert trial(Population([EQUAL] * 3), np.random.default_rng(0), speedup=speedup).verdict == verdict


def test_noise_takes_a_trial_to_the_judges_last_look() -> None:
    population = Population(simulated(30, process_sd=0.2))
    found = [trial(population, np.random.default_rng(seed), speedup=1.03) for seed in range(20)]
    assert {one.pairs for one in found} <= {6, 12, 18}
    assert Counter(one.verdict for one in found)[Verdict.CANNOT_TELL] >= 15
    assert all(one.pairs == 18 and one.looks == 3 for one in found if one.verdict == Verdict.CANNOT_TELL)


def test_a_lost_set_ends_a_trial_without_a_verdict() -> None:
    population = Population([EQUAL, LOST])
    ended = trial(population, np.random.default_rng(0), order=np.array([1]))
    assert (ended.verdict, ended.pairs) == (None, 0)
    assert trial(population, np.random.default_rng(0), order=np.array([0])).verdict == Verdict.SAME


def test_it_refuses_what_no_judgement_can_be_made_of() -> None:
    with pytest.raises(ValueError, match="needs 3 processes in a set, and there are 2"):
        Population([one_set([[1.0], [2.0]])])
    with pytest.raises(ValueError, match="no set was recorded to its end"):
        Population([LOST])
