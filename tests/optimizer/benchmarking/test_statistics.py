"""The statistics themselves, by simulation: processes are a random effect, and the stated level must hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from optimizer.benchmarking.judge import LOOKS
from optimizer.benchmarking.statistics import (
    look_confidence,
    noise_floor,
    student_interval,
    verdict,
)
from optimizer.result import Verdict

PROCESS_SD, ROUND_SD, ROUNDS = 0.02, 0.012, 10


def pairs(rng: np.random.Generator, count: int, log_speedup: float = 0.0) -> np.ndarray:
    """One mean log-speedup per pair of fresh processes: two process effects, then the rounds' mean."""
    processes = rng.normal(0, PROCESS_SD, (2, count))
    rounds = rng.normal(0, ROUND_SD, (count, ROUNDS)).mean(1)
    return log_speedup + processes[0] - processes[1] + rounds


def most_wrong(trials: int, level: float) -> int:
    """More than this many has a chance below one in ten thousand when the level holds."""
    return int(stats.binom.ppf(0.9999, trials, level))


def judged(rng: np.random.Generator, log_speedup: float) -> tuple[Verdict, int]:
    """As `judge` does it: looks at 6, 12 and 18 pairs, stopping at the first verdict."""
    confidence = look_confidence(0.99, len(LOOKS))
    values, aa = pairs(rng, LOOKS[-1], log_speedup), pairs(rng, LOOKS[-1])
    for look in LOOKS:
        low, _, high = student_interval(values[:look], confidence)
        found = verdict(low, high, noise_floor(aa[:look]))
        if found != Verdict.CANNOT_TELL:
            break
    return found, look


def test_the_interval_is_students_worked_out_by_hand() -> None:
    # mean 0.1, standard deviation 0.1, n = 4: half-width t(0.975; 3) * 0.1 / 2 = 3.18245 * 0.05
    low, speedup, high = student_interval([0.0, 0.1, 0.1, 0.2], 0.95)
    sd = math.sqrt(2 * 0.01 / 3)
    assert speedup == pytest.approx(math.exp(0.1))
    assert math.log(high) - 0.1 == pytest.approx(3.182446 * sd / 2, rel=1e-6)
    assert 0.1 - math.log(low) == pytest.approx(3.182446 * sd / 2, rel=1e-6)


def test_one_pair_gives_no_interval() -> None:
    with pytest.raises(ValueError, match="at least two pairs"):
        student_interval([0.1])


@pytest.mark.parametrize(
    ("low", "high", "floor", "expected"),
    [
        (1.031, 1.2, 0.03, Verdict.FASTER),
        (1.03, 1.2, 0.03, Verdict.CANNOT_TELL),
        (0.8, 0.969, 0.03, Verdict.SLOWER),
        (0.8, 0.97, 0.03, Verdict.CANNOT_TELL),
        (0.99, 1.015, 0.001, Verdict.SAME),
        (0.985, 1.021, 0.001, Verdict.CANNOT_TELL),
        (0.975, 1.025, 0.03, Verdict.SAME),
        (1.011, 1.019, 0.015, Verdict.SAME),
        (1.011, 1.019, 0.005, Verdict.FASTER),
        (0.9, 1.1, 0.03, Verdict.CANNOT_TELL),
    ],
)
def test_the_verdict_is_the_designs(low: float, high: float, floor: float, expected: Verdict) -> None:
    assert verdict(low, high, floor) == expected


@pytest.mark.parametrize(("aa", "floor"), [([0.04, -0.01, 0.0], 0.01005), ([-0.04, 0.01, 0.0], 0.00995), ([0.0], 0.0)])
def test_the_noise_floor_is_how_far_from_1_the_aa_came_out(aa: list[float], floor: float) -> None:
    # means +0.01, -0.01 and 0: exp(0.01) - 1 and 1 - exp(-0.01)
    assert noise_floor(aa) == pytest.approx(floor, abs=1e-6)


def test_pairs_that_scatter_widen_the_interval_and_not_the_floor_as_well() -> None:
    calm, wild = [0.01, 0.01, 0.01, 0.01], [0.21, -0.19, 0.11, -0.09]
    assert noise_floor(wild) == pytest.approx(noise_floor(calm))


def test_a_row_that_gives_nothing_is_called_faster_or_slower_at_most_at_the_stated_level() -> None:
    rng, trials = np.random.default_rng(9), 2000
    wrong = 0
    for _ in range(trials):
        row, own = pairs(rng, 10), pairs(rng, 10)
        for look in (5, 10):
            low, _, high = student_interval(row[:look], look_confidence(0.99, 2))
            found = verdict(low, high, noise_floor(own[:look]))
            if found in {Verdict.FASTER, Verdict.SLOWER}:
                wrong += 1
                break
    assert wrong <= most_wrong(trials, 0.01)


def test_more_than_three_looks_are_refused() -> None:
    assert look_confidence(0.99, 3) == pytest.approx(1 - 0.01 / 3)
    with pytest.raises(ValueError, match="4 looks"):
        look_confidence(0.99, 4)


def test_an_interval_over_processes_holds_its_level() -> None:
    rng, trials = np.random.default_rng(1), 4000
    wrong = 0
    for _ in range(trials):
        low, _, high = student_interval(pairs(rng, 6), 0.99)
        wrong += not low <= 1.0 <= high
    assert wrong <= most_wrong(trials, 0.01)


def test_three_looks_together_hold_the_level_and_one_level_for_each_look_does_not() -> None:
    rng, trials = np.random.default_rng(2), 2000
    split = full = 0
    for _ in range(trials):
        values = pairs(rng, LOOKS[-1])
        intervals = [
            (student_interval(values[:n], look_confidence(0.99, 3)), student_interval(values[:n])) for n in LOOKS
        ]
        split += any(not i.low <= 1.0 <= i.high for i, _ in intervals)
        full += any(not i.low <= 1.0 <= i.high for _, i in intervals)
    assert split <= most_wrong(trials, 0.01)
    assert full > split


def test_equal_contenders_are_called_faster_or_slower_at_most_at_the_stated_level() -> None:
    rng, trials = np.random.default_rng(3), 2000
    wrong = sum(judged(rng, 0.0)[0] in {Verdict.FASTER, Verdict.SLOWER} for _ in range(trials))
    assert wrong <= most_wrong(trials, 0.01)


@pytest.mark.parametrize(("planted", "expected"), [(1.05, Verdict.FASTER), (0.95, Verdict.SLOWER)])
def test_a_planted_difference_of_five_percent_is_found(
    planted: float, expected: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the process effect of a pinned allocator, as measured: 1.1 to 1.3 % between pairs
    monkeypatch.setattr("tests.optimizer.benchmarking.test_statistics.PROCESS_SD", 0.008)
    rng, trials = np.random.default_rng(4), 300
    found = [judged(rng, math.log(planted))[0] for _ in range(trials)]
    opposite = Verdict.SLOWER if expected == Verdict.FASTER else Verdict.FASTER
    assert found.count(expected) >= 0.9 * trials
    assert found.count(opposite) == 0


def test_calls_taken_for_independent_samples_would_miss_the_level_by_far() -> None:
    """Why the process is the unit: with rounds as samples most 99 % intervals of an A/A exclude 1."""
    rng, trials = np.random.default_rng(5), 400
    wrong = 0
    for _ in range(trials):
        effects = rng.normal(0, PROCESS_SD, (2, 3))
        rounds = (effects[0] - effects[1])[:, None] + rng.normal(0, ROUND_SD, (3, ROUNDS))
        low, _, high = student_interval(rounds.ravel(), 0.99)
        wrong += not low <= 1.0 <= high
    assert wrong > 10 * 0.01 * trials


def test_the_best_of_twenty_equal_candidates_is_called_faster_only_on_the_samples_that_chose_it() -> None:
    """Why the judgement measures anew. That it does is tested in `coordinator/test_selection.py`."""
    rng, trials, candidates = np.random.default_rng(6), 600, 20
    on_selecting = on_fresh = 0
    selecting_gain = []
    for _ in range(trials):
        screened = np.stack([pairs(rng, 6) for _ in range(candidates)])
        best = int(screened.mean(1).argmax())
        selecting_gain.append(screened[best].mean())
        on_selecting += student_interval(screened[best]).low > 1.0
        on_fresh += student_interval(pairs(rng, 6)).low > 1.0
    assert on_selecting > most_wrong(trials, 0.01), "the selection effect must be there to be removed"
    assert on_fresh <= most_wrong(trials, 0.005)
    assert np.mean(selecting_gain) > 0.01


def test_a_noisy_machine_makes_nothing_the_same_it_cannot_tell() -> None:
    assert verdict(0.5, 1.4, 0.8) == Verdict.CANNOT_TELL
    assert verdict(0.02, 14.0, 180_000.0) == Verdict.CANNOT_TELL
    assert verdict(0.92, 1.08, 0.8) == Verdict.SAME
