"""Charts as inline SVG: intervals around 1, and the distribution of latencies. Colours are the page's CSS variables."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

WIDTH, LABEL, MARGIN, ROW = 860, 310, 24, 34
MAX_POINTS, MAX_SERIES = 160, 6


@dataclass(frozen=True)
class Bar:
    """One interval. `tone` is a CSS class: good, bad or plain."""

    label: str
    low: float
    middle: float
    high: float
    tone: str


def forest(bars: Sequence[Bar], title: str) -> Markup:
    """Intervals of speedups on a logarithmic axis, with the line of "no difference" at 1."""
    if not bars:
        return Markup("")
    low = min(0.95, *(bar.low for bar in bars)) / 1.03
    high = max(1.05, *(bar.high for bar in bars)) * 1.03
    scale = Log(low, high, LABEL, WIDTH - 90)
    height = ROW * len(bars) + 40
    parts = [opened(height, title)]
    for tick in ticks(low, high):
        x = scale(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="4" y2="{height - 26}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{height - 8}" text-anchor="middle">{tick:g}×</text>')
    one = scale(1.0)
    parts.append(f'<line class="one" x1="{one:.1f}" x2="{one:.1f}" y1="4" y2="{height - 26}"/>')
    for index, bar in enumerate(bars):
        y = ROW * index + 22
        left, middle, right = scale(bar.low), scale(bar.middle), scale(bar.high)
        label = shortened(bar.label, 40)
        parts.append(f'<text class="label" x="{LABEL - 14}" y="{y + 4}" text-anchor="end">{label}</text>')
        parts.append(f'<line class="bar {bar.tone}" x1="{left:.1f}" x2="{right:.1f}" y1="{y}" y2="{y}"/>')
        parts.append(f'<circle class="dot {bar.tone}" cx="{middle:.1f}" cy="{y}" r="5"/>')
        parts.append(f'<text class="value" x="{right + 10:.1f}" y="{y + 4}">{bar.middle:.2f}×</text>')
    parts.append("</svg>")
    return Markup("".join(parts))  # numbers, and labels that were escaped


def distribution(samples: Mapping[str, Sequence[float]], title: str) -> Markup:
    """For each contender the share of calls (vertical) that took at most so many milliseconds (horizontal)."""
    series = {name: sorted(v for v in values if v > 0) for name, values in list(samples.items())[:MAX_SERIES]}
    series = {name: values for name, values in series.items() if len(values) > 1}
    if not series:
        return Markup("")
    low = min(values[0] for values in series.values()) / 1.02
    high = max(values[min(len(values) - 1, int(len(values) * 0.999))] for values in series.values()) * 1.02
    across, top, bottom = Log(low, high, 56, WIDTH - MARGIN), 16, 276
    parts = [opened(bottom + 40 + 22 * len(series), title)]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = bottom - share * (bottom - top)
        parts.append(f'<line class="grid" x1="56" x2="{WIDTH - MARGIN}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="48" y="{y + 4:.1f}" text-anchor="end">{share * 100:.0f} %</text>')
    for tick in ticks(low, high):
        x = across(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{tick:g} ms</text>')
    for index, (name, values) in enumerate(series.items()):
        points = " ".join(
            f"{across(value):.1f},{bottom - bisect_right(values, value) / len(values) * (bottom - top):.1f}"
            for value in _thinned(values)
            if value <= high
        )
        y = bottom + 44 + 22 * index
        parts.append(f'<polyline class="line s{index}" points="{points}"/>')
        parts.append(f'<line class="line s{index}" x1="56" x2="84" y1="{y - 4}" y2="{y - 4}"/>')
        parts.append(f'<text class="label" x="94" y="{y}">{shortened(name, 90)} ({len(values):,} calls)</text>')
    parts.append("</svg>")
    return Markup("".join(parts))  # numbers, and names that were escaped


class Log:
    """From a value between `low` and `high` to a place between `left` and `right`, on a logarithmic axis."""

    def __init__(self, low: float, high: float, left: float, right: float) -> None:
        self._low, self._per = math.log(low), (right - left) / (math.log(high) - math.log(low))
        self._left, self._right = left, right

    def __call__(self, value: float) -> float:
        place = self._left + (math.log(value) - self._low) * self._per
        return min(max(self._left, self._right), max(min(self._left, self._right), place))


def ticks(low: float, high: float) -> list[float]:
    """Round numbers between `low` and `high`, few enough to read."""
    for steps in ((1, 1.1, 1.2, 1.5, 2, 3, 5, 7), (1, 2, 5), (1,)):
        found = [
            float(f"{step * 10.0**power:.6g}")
            for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
            for step in steps
            if low <= step * 10.0**power <= high
        ]
        if len(found) <= 7:
            break
    if len(found) < 2:
        found = sorted({float(f"{v:.3g}") for v in (low, math.sqrt(low * high), high)})
    return found


def _thinned(values: Sequence[float]) -> list[float]:
    if len(values) <= MAX_POINTS:
        return list(values)
    return [values[round(i * (len(values) - 1) / (MAX_POINTS - 1))] for i in range(MAX_POINTS)]


def shortened(text: str, limit: int) -> str:
    return str(escape(text if len(text) <= limit else text[: limit - 1] + "…"))


def opened(height: int, title: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}"><title>{escape(title)}</title>'


def written(x: float, y: float, content: str, kind: str = "tick", anchor: str = "middle") -> str:
    """A text that is escaped here."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(content)}</text>'


def across_at(y: float, left: float, right: float) -> str:
    """A line of the grid."""
    return f'<line class="grid" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'


def upright_at(x: float, top: float, bottom: float) -> str:
    return f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>'
