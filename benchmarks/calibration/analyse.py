"""From recordings to what a report says: how often equal processes are told apart, how often planted differences are
found, how long it takes. Everything is counted over trials that the judge decided (`replay.py`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime

import numpy as np
from pydantic import Field, computed_field
from scipy import stats

from benchmarks.calibration.conditions import BY_NAME
from benchmarks.calibration.dependence import Dependence, dependence
from benchmarks.calibration.recording import Header, RecordedSet, Recording, log_times
from benchmarks.calibration.replay import BLOCKS, SINGLE, Population, Scheme, Trial, drawn, trial
from optimizer.benchmarking.judge import LOOKS, planned_looks
from optimizer.result import Verdict
from optimizer.spec import Strict

TRIALS = 2000
ALLOWED_WRONG = 0.01
DIFFERENCES = (0.01, 0.02, 0.03, 0.05, 0.08, 0.10)
PAIRS = (6, 12, 18, 30, 60)  # a policy's `max_pairs` that power is looked at for
POWER = 0.8
NEED_SHARE, MIN_NEED_TRIALS = 0.2, 100  # of the trials, for each of PAIRS
SHAKES, SHAKEN_SHARE = 40, 0.125
SHARE_CONFIDENCE = 0.95

Say = Callable[[str], None]


class Tally(Strict):
    """Trials of one condition with one difference. The other is faster in one half of the trials and slower in the
    other; for a difference of 0 every `faster` or `slower` is wrong. `missed`: the truth lay outside the interval.
    `same_beyond`: called `same` although the difference is larger than the margin within which that is said. `apart`:
    found by the interval alone, without the floor."""

    difference: float
    scheme: Scheme
    trials: int
    right: int
    wrong: int
    same: int
    cannot_tell: int
    stopped: int = Field(description="ended by a set that came to nothing, without a verdict")
    missed: int
    same_beyond: int
    apart: int
    decided_at_look: dict[int, int] = Field(description="trials with a verdict of any kind, by the number of the look")
    pairs_mean: float
    seconds_median: float
    seconds_p90: float
    floor_median: float
    half_width_median: float

    @computed_field  # type: ignore[prop-decorator]
    @property
    def power(self) -> float:
        return self.right / self.trials

    @computed_field  # type: ignore[prop-decorator]
    @property
    def power_interval(self) -> tuple[float, float]:
        return binomial_interval(self.right, self.trials)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def wrong_share(self) -> float:
        return self.wrong / self.trials

    @computed_field  # type: ignore[prop-decorator]
    @property
    def wrong_interval(self) -> tuple[float, float]:
        return binomial_interval(self.wrong, self.trials)


class ConditionReport(Strict):
    """`shaken_wrong`: the wrong share's range (5th to 95th percentile) when the recorded sets themselves are drawn
    anew, which a binomial interval over trials knows nothing of. `pairs_needed`: None where 60 are too few."""

    condition: str
    in_words: str
    began: datetime
    sets: int
    lost: dict[str, int]
    processes: int
    call_ms: float
    process_sd: float = Field(description="of processes within their set, as a share")
    seconds_a_set: float
    load_median: float
    load_most: float
    refused_bursts: int
    page_faults_per_call: float
    disturbed_share: float
    dependence: Dependence | None
    equal: list[Tally]
    shaken_wrong: tuple[float, float]
    planted: list[Tally]
    pairs_needed: dict[str, int | None]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def holds(self) -> bool:
        return all(tally.wrong_share <= ALLOWED_WRONG for tally in self.equal)


class Report(Strict):
    """All conditions of one recording."""

    schema_version: int = 1
    header: Header
    trials: int
    seed: int
    looks: list[int]
    allowed_wrong: float = ALLOWED_WRONG
    holds: bool
    conditions: list[ConditionReport]


def binomial_interval(count: int, trials: int) -> tuple[float, float]:
    """Clopper and Pearson's exact interval of a share, at 95 %."""
    tail = (1 - SHARE_CONFIDENCE) / 2
    low = float(stats.beta.ppf(tail, count, trials - count + 1)) if count else 0.0
    high = float(stats.beta.ppf(1 - tail, count + 1, trials - count)) if count < trials else 1.0
    return low, high


def analyse(recording: Recording, *, trials: int = TRIALS, seed: int = 0, say: Say = lambda _: None) -> Report:
    """Raises RecordingError; ValueError where a condition has no set that could be judged."""
    found: list[ConditionReport] = []
    for name in recording.conditions():
        say(f"Judging {trials} trials and more of: {BY_NAME[name].in_words}")
        found.append(_condition(name, recording.sets(name), trials, np.random.default_rng([seed, len(found)])))
    if not found:
        raise ValueError(f"nothing is recorded in {recording.folder}")
    return Report(
        header=recording.header(),
        trials=trials,
        seed=seed,
        looks=list(LOOKS),
        holds=all(one.holds for one in found),
        conditions=found,
    )


def _condition(name: str, sets: Sequence[RecordedSet], trials: int, rng: np.random.Generator) -> ConditionReport:
    population, times = Population(sets), log_times(list(sets))
    whole = [one for one in sets if one.lost is None]
    processes = [process for one in whole for process in one.processes]
    within = times - times.mean(axis=1, keepdims=True)
    loads = [one.load_average for one in sets]
    return ConditionReport(
        condition=name,
        in_words=BY_NAME[name].in_words,
        began=sets[0].at,
        sets=len(sets),
        lost=dict(Counter(one.lost for one in sets if one.lost is not None)),
        processes=len(processes),
        call_ms=float(np.exp(np.median(times)) / 1e6),
        process_sd=float(np.sqrt((within**2).sum() / (within.size - len(within)))),
        seconds_a_set=float(np.median([one.seconds for one in whole])),
        load_median=float(np.median(loads)),
        load_most=max(loads),
        refused_bursts=sum(process.refused_bursts for process in processes),
        page_faults_per_call=float(np.median([process.page_faults_per_call for process in processes])),
        disturbed_share=float(np.mean([process.disturbed_share for process in processes])),
        dependence=dependence(times, rng),
        equal=[tallied(population, 0.0, trials, rng, scheme=scheme) for scheme in (BLOCKS, SINGLE)],
        shaken_wrong=shaken_wrong(population, max(1, round(trials * SHAKEN_SHARE)), rng),
        planted=[tallied(population, difference, trials, rng) for difference in DIFFERENCES],
        pairs_needed={
            f"{difference:g}": pairs_needed(population, difference, trials, rng) for difference in DIFFERENCES
        },
    )


def tallied(
    population: Population,
    difference: float,
    trials: int,
    rng: np.random.Generator,
    *,
    scheme: Scheme = BLOCKS,
    looks: Sequence[int] = LOOKS,
    order: np.ndarray | None = None,
) -> Tally:
    right, wrong, done = 0, 0, []
    for number in range(trials):
        faster = number % 2 == 0
        speedup = 1.0 + difference if faster else 1.0 / (1.0 + difference)
        one = trial(population, rng, speedup=speedup, looks=looks, scheme=scheme, order=order)
        done.append(one)
        if one.verdict in (Verdict.FASTER, Verdict.SLOWER):
            found = difference > 0 and (one.verdict == Verdict.FASTER) == faster
            right, wrong = right + found, wrong + (not found)
    return _tally(difference, scheme, done, right, wrong)


def _tally(difference: float, scheme: Scheme, done: Sequence[Trial], right: int, wrong: int) -> Tally:
    ended = [one for one in done if one.verdict is not None]
    told = [one for one in ended if one.verdict != Verdict.CANNOT_TELL]
    verdicts = Counter(one.verdict for one in done)
    return Tally(
        difference=difference,
        scheme=scheme,
        trials=len(done),
        right=right,
        wrong=wrong,
        same=verdicts[Verdict.SAME],
        cannot_tell=verdicts[Verdict.CANNOT_TELL],
        stopped=verdicts[None],
        missed=sum(not one.held for one in done),
        same_beyond=sum(one.verdict == Verdict.SAME and one.beyond for one in done),
        apart=sum(one.apart for one in done),
        decided_at_look=dict(sorted(Counter(one.looks for one in told).items())),
        pairs_mean=_over(np.mean, [one.pairs for one in ended]),
        seconds_median=_over(np.median, [one.seconds for one in ended]),
        seconds_p90=_over(lambda values: np.percentile(values, 90), [one.seconds for one in ended]),
        floor_median=_over(np.median, [one.floor for one in ended]),
        half_width_median=_over(np.median, [one.half_width for one in ended]),
    )


def _over(figure: Callable[[list[float]], np.floating], values: list[float]) -> float:
    """0 where every trial was stopped."""
    return float(figure(values)) if values else 0.0


def shaken_wrong(population: Population, trials: int, rng: np.random.Generator) -> tuple[float, float]:
    """The wrong share between equal processes had other sets been recorded: they are drawn anew, in blocks."""
    count = len(population.sets)
    shares = [
        tallied(population, 0.0, trials, rng, order=drawn(count, count, BLOCKS, rng)).wrong_share for _ in range(SHAKES)
    ]
    return float(np.percentile(shares, 5)), float(np.percentile(shares, 95))


def pairs_needed(population: Population, difference: float, trials: int, rng: np.random.Generator) -> int | None:
    """The least `max_pairs` of a policy under which 80 % of the judgements find the difference."""
    enough = max(MIN_NEED_TRIALS, round(trials * NEED_SHARE))
    for pairs in PAIRS:
        if tallied(population, difference, enough, rng, looks=planned_looks(pairs)).power >= POWER:
            return pairs
    return None
