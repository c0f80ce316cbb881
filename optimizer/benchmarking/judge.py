"""The judgement: sets of fresh processes until the verdicts stand, at most three looks with the error split among them.

Nothing that was measured while candidates were chosen enters here. An A/A contender (a second baseline process in every
set) gives the noise floor from as many pairs and rounds, under the same load.

When is looked at the samples is fixed beforehand, and never moved by what they show. Stopping because time is over
depends on the clock alone, not on the samples, so that what was measured by then stands: as one more of the planned
looks where there are six sets, and with fewer as an interval without a verdict.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from optimizer.benchmarking.bursts import WARM_UP_S, Draw, Entrant
from optimizer.benchmarking.sets import ROUNDS, Check, MeasuredSet, Start, measure_set
from optimizer.benchmarking.statistics import (
    CONFIDENCE,
    SpeedupInterval,
    look_confidence,
    noise_floor,
    student_interval,
    verdict,
)
from optimizer.errors import FuseworksError
from optimizer.result import Comparison, Interval, Verdict
from optimizer.sandbox import Child

LOOKS = (6, 12, 18)
MIN_SETS = 6
LEAST_SETS = 3  # an interval over two pairs says nothing: Student's t is beyond 100 there
AGAIN_SUFFIX = "_again"

Progress = Callable[[str, int, int], None]


class Pair(NamedTuple):
    """A question: how fast is `other` against `base`. `same_settings`: both under the same runtime settings.
    `awaited`: the judgement goes on for its verdict, as far as looks and time allow. `moot`: the pair whose `faster`
    ends the waiting for this one, as nothing depends on it any more."""

    base: str
    other: str
    same_settings: bool = True
    awaited: bool = True
    moot: tuple[str, str] | None = None


@dataclass
class JudgeOutcome:
    """`samples`: one entrant per process. `failed`: contenders that dropped out, with the error that ended them."""

    comparisons: list[Comparison]
    samples: dict[str, list[Entrant]]
    failed: dict[str, FuseworksError]
    noise_floor: float
    aa_log_speedups: list[float]
    sets: int
    looks: int
    load_averages: list[float]
    notes: list[str] = field(default_factory=list)

    def comparison(self, base: str, other: str) -> Comparison | None:
        """None where one of the two dropped out."""
        return next((c for c in self.comparisons if (c.base, c.other) == (base, other)), None)


def planned_looks(max_pairs: int, looks: Sequence[int] = LOOKS) -> tuple[int, ...]:
    """The looks that a policy's `max_pairs` leaves; the last one is at `max_pairs` itself."""
    kept = [look for look in looks if look < max_pairs]
    return (*kept[: len(looks) - 1], max_pairs)


def judge(
    starts: Mapping[str, Start],
    pairs: Sequence[Pair],
    draw: Draw,
    *,
    rng: np.random.Generator,
    baseline: str = "baseline",
    looks: Sequence[int] = LOOKS,
    rounds: int = ROUNDS,
    warm_up_s: float = WARM_UP_S,
    confidence: float = CONFIDENCE,
    deadline: float | None = None,
    untold_deadline: float | None = None,
    last_deadline: float | None = None,
    checks: Mapping[str, Check] | None = None,
    reference: Child | None = None,
    own_references: Mapping[str, Child] | None = None,
    essential: Collection[str] = (),
    progress: Progress | None = None,
    measure: Callable[..., MeasuredSet] = measure_set,
) -> JudgeOutcome:
    """`starts` gives a fresh loaded process of each contender; `deadline` is on `time.monotonic`'s clock. `measure`
    takes the place of `measure_set` where recorded sets are judged anew (`benchmarks/calibration`).

    Stops at the first look at which every awaited pair has a verdict, at the last look, or before a set that would
    pass the deadline, but not before the first look of six sets: a run without a verdict is worth little. As long as
    the first of the pairs had no verdict at a look, `untold_deadline` is its deadline, where that is later. Only before
    a set that would pass `last_deadline` it stops with fewer than six, three at least, and then there is no verdict. A
    contender that fails drops out; the failure of the baseline or of an `essential` one raises.
    """
    again = baseline + AGAIN_SUFFIX
    contenders = {**starts, again: starts.get(again, starts[baseline])}
    at_look = look_confidence(confidence, len(looks))
    needed = min(MIN_SETS, looks[0])
    sets: list[MeasuredSet] = []
    failed: dict[str, FuseworksError] = {}
    notes: list[str] = []
    looked = 0
    while True:
        live = {name: start for name, start in contenders.items() if name not in failed}
        if progress:
            progress(f"Measuring {len(live)} contenders in fresh processes", len(sets), looks[-1])
        one = measure(
            live,
            draw,
            baseline=baseline,
            rng=rng,
            rounds=rounds,
            warm_up_s=warm_up_s,
            essential={again, *essential},
            checks=checks,
            reference=reference,
            own_references=own_references,
        )
        sets.append(one)
        failed.update(one.failed)
        asked = [pair for pair in pairs if not {pair.base, pair.other} & set(failed)]
        if not asked:
            notes.append("every contender that was to be compared dropped out")
            break
        if len(sets) in looks:
            looked += 1
            outcome = [compare(sets, pair, again, baseline, at_look, confidence, looked, needed) for pair in asked]
            faster = {(c.base, c.other) for c in outcome if c.verdict == Verdict.FASTER}
            awaited = [c for c, pair in zip(outcome, asked, strict=True) if pair.awaited and pair.moot not in faster]
            if len(sets) >= looks[-1] or all(c.verdict != Verdict.CANNOT_TELL for c in awaited):
                break
            told = outcome[0].verdict != Verdict.CANNOT_TELL
            if not told and deadline is not None and untold_deadline is not None:
                deadline = max(deadline, untold_deadline)
        least, until = (needed, deadline) if len(sets) >= needed else (LEAST_SETS, last_deadline)
        if until is not None and len(sets) >= least and time.monotonic() + _set_s(sets) > until:
            notes.append(f"stopped after {len(sets)} of up to {looks[-1]} sets: the time budget is over")
            looked += len(sets) not in looks
            break
    asked = [pair for pair in pairs if not {pair.base, pair.other} & set(failed)]
    aa = [one.log_speedup(baseline, again) for one in sets]
    names = [name for name in contenders if name not in failed]
    return JudgeOutcome(
        comparisons=[compare(sets, pair, again, baseline, at_look, confidence, looked, needed) for pair in asked],
        samples={name: [one.entrants[name] for one in sets] for name in names},
        failed=failed,
        noise_floor=noise_floor(aa),
        aa_log_speedups=aa,
        sets=len(sets),
        looks=looked,
        load_averages=[one.load_average for one in sets],
        notes=notes + _refusal_notes(sets),
    )


def compare(
    sets: Sequence[MeasuredSet],
    pair: Pair,
    again: str,
    baseline: str,
    at_look: float,
    confidence: float,
    looks: int,
    needed: int = MIN_SETS,
) -> Comparison:
    """The interval of this look; `confidence` is what holds over all looks together. Fewer sets than `needed` give no
    verdict: they were cut off before the first look."""
    logs = [one.log_speedup(pair.base, pair.other) for one in sets]
    floor = noise_floor([one.log_speedup(baseline, again) for one in sets])
    low, speedup, high = student_interval(logs, at_look)
    means = student_interval([one.mean_log_speedup(pair.base, pair.other) for one in sets], at_look)
    reason = _no_verdict(SpeedupInterval(low, speedup, high), means, len(logs), needed)
    return Comparison(
        base=pair.base,
        other=pair.other,
        speedup=speedup,
        interval=Interval(low=low, high=high, confidence=confidence),
        verdict=Verdict.CANNOT_TELL if reason else verdict(low, high, floor),
        noise_floor=floor,
        pairs=len(logs),
        looks=looks,
        same_settings=pair.same_settings,
        reason=reason,
        log_speedups=logs,
    )


def _no_verdict(medians: SpeedupInterval, means: SpeedupInterval, pairs: int, needed: int) -> str | None:
    """Why there is none, whatever the interval says. `medians` and `means`: the interval over each pair's median round,
    which judges, and over each pair's mean. What the machine does to single bursts moves the means either way, and
    their interval is the wider for it; where the two do not even meet, a contender is slow now and then by itself."""
    if pairs < needed:
        return f"only {pairs} of the {needed} pairs that a verdict needs fitted into the time"
    if means.high < medians.low or means.low > medians.high:
        return (
            f"over all rounds the mean is {means.speedup:.2f}x and the median {medians.speedup:.2f}x, further apart "
            "than chance: one of the two is slow now and then"
        )
    return None


def _set_s(sets: Sequence[MeasuredSet]) -> float:
    return float(np.mean([one.seconds for one in sets[-3:]]))


def _refusal_notes(sets: Sequence[MeasuredSet]) -> list[str]:
    refused: dict[str, int] = {}
    for one in sets:
        for name, entrant in one.entrants.items():
            refused[name] = refused.get(name, 0) + entrant.refusals
    return [
        f"{count} bursts of {name} did not add up: their rounds were repeated with fresh inputs"
        for name, count in refused.items()
        if count
    ]
