"""A timeline as the paths of an SVG: one a part, a step a bin. Colours are classes, for inline styles are forbidden."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from fuseworks.traces.reading.parts import PARTS
from optimizer.result import TracedRank

HEIGHT = 100
LEAST_SHARE = 0.0005  # less reads 0.0 %


@dataclass(frozen=True)
class Part:
    """`path` in a picture of `Picture.width` by HEIGHT. `share`: of the whole span. `is_dim`: not what is spoken of."""

    name: str
    label: Any
    path: str
    share: float
    is_dim: bool


@dataclass(frozen=True)
class Picture:
    trace: str
    rank: int | None
    width: int
    span_ms: float
    parts: list[Part]


def picture(rank: TracedRank, spoken_of: Collection[str] = ()) -> Picture | None:
    """None of a trace without GPU. `spoken_of`: parts that stand out; without any, all do."""
    timeline = rank.timeline
    if timeline is None:
        return None
    shares = {
        "compute": timeline.compute,
        "communication": timeline.communication,
        "copies": timeline.copies,
        **timeline.idle,
    }
    bins = len(timeline.compute)
    below, parts = [0.0] * bins, []
    for name, label in PARTS.items():
        values = shares.get(name, [])
        if len(values) != bins or sum(values) < LEAST_SHARE * bins:
            continue
        path = _path(below, values)
        below = [low + value for low, value in zip(below, values, strict=True)]
        parts.append(Part(name, label, path, sum(values) / bins, bool(spoken_of) and name not in spoken_of))
    return Picture(rank.trace, rank.rank, bins, timeline.bin_ms * bins, parts)


def _path(below: Sequence[float], values: Sequence[float]) -> str:
    """A rectangle for each bin that has some of it; equal neighbours are one."""
    drawn: list[tuple[int, int, float, float]] = []
    for at, (low, value) in enumerate(zip(below, values, strict=True)):
        top, bottom = _y(low + value), _y(low)
        if bottom - top < 0.05:
            continue
        if drawn and drawn[-1][1] == at and drawn[-1][2:] == (top, bottom):
            drawn[-1] = (drawn[-1][0], at + 1, top, bottom)
        else:
            drawn.append((at, at + 1, top, bottom))
    return "".join(f"M{left} {top:g}H{right}V{bottom:g}H{left}z" for left, right, top, bottom in drawn)


def _y(share: float) -> float:
    return round(HEIGHT * (1.0 - min(share, 1.0)), 1)
