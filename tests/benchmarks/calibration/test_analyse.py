"""Rates over trials: against theory where there is one, and against a verdict code that was made worse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from benchmarks.calibration import analyse as analysing
from benchmarks.calibration.analyse import analyse, binomial_interval, pairs_needed, shaken_wrong, tallied
from benchmarks.calibration.recording import Recording, log_times
from benchmarks.calibration.replay import BLOCKS, SINGLE, Population, Scheme
from optimizer.benchmarking import judge as judging
from optimizer.benchmarking.statistics import SpeedupInterval, student_interval
from tests.benchmarks.calibration.synthetic import LOST, one_set, saved, simulated


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def slow_now_and_then(generator: np.random.Generator, number: int) -> np.ndarray:
    """One process in ten takes 2.3 times as long for all of its life, as was seen with the default allocator."""
    return np.log(2.3) * (generator.random(3) < 0.1)


@pytest.mark.parametrize("scheme", [BLOCKS, SINGLE])
@pytest.mark.parametrize("effect", [None, slow_now_and_then], ids=["even", "some much slower"])
def test_equal_processes_are_told_apart_in_at_most_one_trial_in_a_hundred(scheme: Scheme, effect: object) -> None:
    population = Population(simulated(60, effect=effect))  # type: ignore[arg-type]
    tally = tallied(population, 0.0, 400, rng(), scheme=scheme)
    assert tally.right == 0
    assert tally.wrong_share <= 0.01
    assert tally.missed <= stats.binom.ppf(0.9999, 400, 0.01)


def test_an_interval_that_is_too_narrow_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge's own code is what is counted: made worse, its verdicts are wrong more often."""

    def narrow(logs: Sequence[float], confidence: float) -> SpeedupInterval:
        return student_interval(logs, 0.8)

    monkeypatch.setattr(judging, "student_interval", narrow)
    monkeypatch.setattr(judging, "noise_floor", lambda logs: 0.0)
    tally = tallied(Population(simulated(60)), 0.0, 200, rng())
    assert tally.wrong_share > 0.1
    assert tally.missed >= tally.wrong


def test_power_is_what_the_noncentral_t_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """One look at six pairs and no floor: then the judge is a t test, whose power is known."""
    monkeypatch.setattr(judging, "noise_floor", lambda logs: 0.0)
    monkeypatch.setattr(judging, "verdict", _by_sign)
    sets = simulated(300, process_sd=0.02, burst_sd=0.0, rounds=1)
    times = log_times(sets)
    pair_sd = math.sqrt(2 * float(times.var(axis=1, ddof=1).mean()))
    shift = math.log(1.05) / (pair_sd / math.sqrt(6))
    expected = float(stats.nct.sf(stats.t.ppf(0.995, 5), 5, shift))
    assert 0.3 < expected < 0.8, "a case that tells"
    tally = tallied(Population(sets), 0.05, 1500, rng(), looks=(6,), scheme=SINGLE)
    assert tally.power == pytest.approx(expected, abs=0.05)
    assert tally.wrong == 0


def _by_sign(low: float, high: float, floor: float) -> judging.Verdict:
    if low > 1:
        return judging.Verdict.FASTER
    return judging.Verdict.SLOWER if high < 1 else judging.Verdict.CANNOT_TELL


def test_power_grows_with_the_difference_and_the_wrong_way_is_never_taken() -> None:
    population = Population(simulated(40, process_sd=0.01))
    found = [tallied(population, difference, 120, rng()) for difference in (0.01, 0.03, 0.05, 0.10)]
    powers = [tally.power for tally in found]
    assert powers == sorted(powers)
    assert powers[0] < 0.2 and powers[-1] > 0.95
    assert sum(tally.wrong for tally in found) == 0
    # the floor only ever takes away
    assert all(tally.right <= tally.apart for tally in found)


def test_same_is_wrong_where_the_difference_is_beyond_the_margin_that_it_was_said_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    population = Population(simulated(40, process_sd=0.01))
    honest = tallied(population, 0.03, 100, rng())
    assert honest.same_beyond <= honest.missed

    def centred(logs: Sequence[float], confidence: float) -> SpeedupInterval:
        return SpeedupInterval(0.99, 1.0, 1.01)

    monkeypatch.setattr(judging, "student_interval", centred)
    blind = tallied(population, 0.12, 50, rng())
    assert (blind.same, blind.same_beyond, blind.missed, blind.apart) == (50, 50, 50, 0)


def test_a_tally_counts_every_trial_once() -> None:
    tally = tallied(Population([*simulated(20, process_sd=0.03), LOST]), 0.03, 150, rng(), scheme=SINGLE)
    assert tally.right + tally.wrong + tally.same + tally.cannot_tell + tally.stopped == tally.trials == 150
    # six draws at least, and 18 at most, of which none may be the one in 21 that was lost
    assert 1 - (20 / 21) ** 6 - 0.1 < tally.stopped / 150 < 1 - (20 / 21) ** 18 + 0.1
    assert sum(tally.decided_at_look.values()) == tally.right + tally.wrong + tally.same


def test_pairs_needed_are_six_without_noise_and_unknown_with_too_much() -> None:
    equal = Population([one_set([[10.0, 10.0]] * 3)] * 3)
    assert pairs_needed(equal, 0.03, 100, rng()) == 6
    assert pairs_needed(Population(simulated(20, process_sd=0.5)), 0.03, 100, rng()) is None


def test_other_recordings_would_have_given_other_shares() -> None:
    low, high = shaken_wrong(Population(simulated(20)), 10, rng())
    assert 0.0 <= low <= high <= 0.2


@pytest.mark.parametrize(
    ("count", "trials", "low", "high"),
    [
        (0, 300, 0.0, 1 - 0.025 ** (1 / 300)),
        (300, 300, 0.025 ** (1 / 300), 1.0),
        (5, 10, 0.1871, 0.8129),  # Clopper and Pearson's own tables
        (1, 20, 0.0013, 0.2487),
    ],
)
def test_the_interval_of_a_share_is_the_exact_one(count: int, trials: int, low: float, high: float) -> None:
    assert binomial_interval(count, trials) == pytest.approx((low, high), abs=1e-4)


def test_a_recording_becomes_a_report_of_each_of_its_conditions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analysing, "SHAKES", 3)
    monkeypatch.setattr(analysing, "MIN_NEED_TRIALS", 20)
    sets = {"quiet-default": simulated(12), "noisy-pinned": [*simulated(11, process_sd=0.05), LOST]}
    said: list[str] = []
    report = analyse(saved(tmp_path, sets), trials=60, say=said.append)
    quiet, noisy = report.conditions
    assert len(said) == 2
    assert (quiet.condition, quiet.sets, quiet.processes, quiet.lost) == ("quiet-default", 12, 36, {})
    assert (noisy.sets, noisy.processes, noisy.lost) == (12, 33, {"benchmarking:ours:busy": 1})
    assert quiet.call_ms == pytest.approx(10.0, rel=0.02)
    assert quiet.process_sd == pytest.approx(0.021, abs=0.006)  # 2 % of the process, 1.2 % / 2 of four bursts
    assert noisy.process_sd > 1.5 * quiet.process_sd
    assert [tally.difference for tally in quiet.planted] == [0.01, 0.02, 0.03, 0.05, 0.08, 0.10]
    assert {tally.scheme for tally in quiet.equal} == {BLOCKS, SINGLE}
    assert report.holds == (quiet.holds and noisy.holds)


def test_the_same_recording_and_seed_give_the_same_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysing, "SHAKES", 2)
    monkeypatch.setattr(analysing, "MIN_NEED_TRIALS", 5)
    recording = saved(tmp_path, {"quiet-default": simulated(8)})
    assert analyse(recording, trials=20) == analyse(recording, trials=20)
    assert analyse(recording, trials=20) != analyse(recording, trials=20, seed=1)


def test_a_folder_without_a_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing is recorded in"):
        analyse(Recording(tmp_path))
