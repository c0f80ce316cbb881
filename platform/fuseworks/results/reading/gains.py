"""Predicted gains beside what came of them: how many intervals held, how far their middles were off, and the picture.

Means of gains are geometric: twice too much and half of it balance.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fuseworks.results.models import CheckedGain

# Evidence with an interval over pairs of fresh processes; what else was measured judges nothing.
JUDGED = frozenset({"judgement", "ablation"})
SIZE, MARGIN = 320.0, 44.0  # of the picture, in its own units
TICKS = (0.25, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0)
LEAST_RANGE, MOST_RANGE = (0.9, 1.1), (0.1, 25.0)
MOST_TICKS = 6
MOST_DRAWN = 400


@dataclass(frozen=True)
class Track:
    """How predictions of one rule and remedy did. Shares are None where nothing was measured."""

    rule: str
    remedy: str
    predictions: int
    measured: int
    judged: int
    coverage: float | None
    bias: float | None
    predicted: float | None
    realised: float | None


@dataclass(frozen=True)
class Mark:
    """One gain in the picture: the interval from `left` to `right`, its middle at (`x`, `y`)."""

    left: float
    right: float
    x: float
    y: float
    judged: bool
    row: CheckedGain


@dataclass(frozen=True)
class Tick:
    at: float
    across: float
    text: str


@dataclass(frozen=True)
class Scatter:
    """A square on logarithmic axes; `first` and `last` are the ends of both, `x` across and `y` up."""

    marks: list[Mark]
    ticks: list[Tick]
    left_out: int = 0
    first: float = MARGIN
    last: float = SIZE - MARGIN / 2
    top: float = MARGIN / 2
    bottom: float = SIZE - MARGIN
    size: float = SIZE
    middle: float = field(default=(MARGIN + SIZE - MARGIN / 2) / 2)


def measured(rows: Iterable[CheckedGain]) -> list[CheckedGain]:
    return [row for row in rows if row.realised is not None]


def track(rows: Sequence[CheckedGain], rule: str = "", remedy: str = "") -> Track:
    found = measured(rows)
    predicted = [_middle_log(row) for row in found]
    realised = [math.log(row.realised or 1.0) for row in found]
    return Track(
        rule=rule,
        remedy=remedy,
        predictions=len(rows),
        measured=len(found),
        judged=sum(row.evidence in JUDGED for row in found),
        coverage=_mean([float(covers(row)) for row in found]),
        bias=_change([a - b for a, b in zip(predicted, realised, strict=True)]),
        predicted=_gain(predicted),
        realised=_gain(realised),
    )


def tracks(rows: Iterable[CheckedGain]) -> list[Track]:
    """By rule and remedy, what was measured most often first."""
    groups: dict[tuple[str, str], list[CheckedGain]] = {}
    for row in rows:
        groups.setdefault((row.rule, row.remedy), []).append(row)
    found = [track(group, rule, remedy) for (rule, remedy), group in groups.items()]
    return sorted(found, key=lambda one: (-one.measured, -one.predictions, one.rule, one.remedy))


def covers(row: CheckedGain) -> bool:
    return row.realised is not None and row.predicted_low <= row.realised <= row.predicted_high


def by_evidence(rows: Iterable[CheckedGain]) -> dict[str, int]:
    return dict(Counter(row.evidence for row in measured(rows)))


def scatter(rows: Iterable[CheckedGain]) -> Scatter | None:
    """Predicted across, realised up; None where nothing was measured."""
    found = measured(rows)
    if not found:
        return None
    shown = found[:MOST_DRAWN]
    values = [value for row in shown for value in (row.predicted_low, row.predicted_high, row.realised or 1.0)]
    low = max(min([*values, LEAST_RANGE[0]]) / 1.02, MOST_RANGE[0])
    high = min(max([*values, LEAST_RANGE[1]]) * 1.02, MOST_RANGE[1])
    length = SIZE - MARGIN * 1.5

    def at(value: float) -> float:
        share = math.log(min(max(value, low), high) / low) / math.log(high / low)
        return round(share * length, 1)

    marks = [
        Mark(
            left=MARGIN + at(row.predicted_low),
            right=MARGIN + at(row.predicted_high),
            x=MARGIN + at(math.exp(_middle_log(row))),
            y=SIZE - MARGIN - at(row.realised or 1.0),
            judged=row.evidence in JUDGED,
            row=row,
        )
        for row in shown
    ]
    inside = [tick for tick in TICKS if low <= tick <= high]
    kept = inside[:: max(1, math.ceil(len(inside) / MOST_TICKS))]
    ticks = [Tick(at=SIZE - MARGIN - at(tick), across=MARGIN + at(tick), text=f"{tick:g}×") for tick in kept]
    return Scatter(marks, ticks, left_out=len(found) - len(shown))


def _middle_log(row: CheckedGain) -> float:
    return (math.log(row.predicted_low) + math.log(row.predicted_high)) / 2


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _gain(logs: Sequence[float]) -> float | None:
    mean = _mean(logs)
    return math.exp(mean) if mean is not None else None


def _change(logs: Sequence[float]) -> float | None:
    mean = _mean(logs)
    return math.expm1(mean) if mean is not None else None
