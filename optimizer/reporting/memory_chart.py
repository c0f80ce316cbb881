"""Memory over one call as inline SVG: what the call holds, its peak, and the parts of a training step behind it."""

from __future__ import annotations

import math

from markupsafe import Markup

from optimizer.reporting import words
from optimizer.reporting.charts import MARGIN, WIDTH, across_at, opened, upright_at, written
from optimizer.result import MemoryTimeline

LEFT, TOP, BOTTOM = 90, 30, 250
MOST_TICKS, ROUNDED = 6, 1e-9


class Linear:
    """From a value between 0 and `high` to a place between `left` and `right`."""

    def __init__(self, high: float, left: float, right: float) -> None:
        self._per, self._left = (right - left) / high if high else 0.0, left

    def __call__(self, value: float) -> float:
        return self._left + value * self._per


def round_steps(high: float, base: float = 10.0) -> list[float]:
    """Round numbers from 0 on up to `high`; of bytes with `base` 2."""
    if high <= 0:
        return [0.0]
    step = base ** math.floor(math.log(high / MOST_TICKS, base))
    for factor in (1, 2, 5, 10) if base == 10.0 else (1, 2, 4, 8, 16):
        if high / (step * factor) <= MOST_TICKS + ROUNDED:
            step *= factor
            break
    return [step * count for count in range(int(high / step + ROUNDED) + 1)]


def memory(timeline: MemoryTimeline | None, title: str) -> Markup:
    """Nothing where no memory was recorded."""
    if timeline is None or len(timeline.points) < 2 or timeline.profiled_ms <= 0:
        return Markup("")
    right = WIDTH - MARGIN
    across, up = Linear(timeline.profiled_ms, LEFT, right), Linear(1.08 * timeline.peak_bytes or 1.0, BOTTOM, TOP)
    parts = [opened(BOTTOM + 44, title)]
    for span in timeline.phases:
        x, width = across(span.from_ms), across(span.to_ms) - across(span.from_ms)
        box = f'x="{x:.1f}" y="{TOP}" width="{width:.1f}" height="{BOTTOM - TOP}"'
        parts.append(f'<rect class="band {span.name}" {box}/>')
        if width > 70:
            parts.append(written(x + width / 2, TOP - 8, span.name))
    for size in round_steps(1.08 * timeline.peak_bytes, 2.0):
        parts += [across_at(up(size), LEFT, right), written(LEFT - 8, up(size) + 4, words.size(size), anchor="end")]
    for ms in round_steps(timeline.profiled_ms):
        parts += [upright_at(across(ms), TOP, BOTTOM), written(across(ms), BOTTOM + 18, f"{ms:.4g} ms")]
    outline = " ".join(f"{x:.1f},{y:.1f}" for x, y in _steps(timeline, across, up))
    parts.append(f'<polygon class="area" points="{LEFT},{BOTTOM} {outline} {right:.1f},{BOTTOM}"/>')
    parts.append(f'<polyline class="line s1" points="{outline}"/>')
    x, y = across(timeline.peak_at_ms), up(timeline.peak_bytes)
    side, anchor = (-9, "end") if x > WIDTH / 2 else (9, "start")
    parts.append(f'<circle class="dot bad" cx="{x:.1f}" cy="{y:.1f}" r="5"/>')
    parts.append(written(x + side, y + 4, f"peak {words.size(timeline.peak_bytes)}", "label", anchor))
    parts.append("</svg>")
    return Markup("".join(parts))  # numbers, and words of ours


def _steps(timeline: MemoryTimeline, across: Linear, up: Linear) -> list[tuple[float, float]]:
    """A size holds until the next one is known."""
    found: list[tuple[float, float]] = []
    for ms, size in timeline.points:
        if found:
            found.append((across(ms), found[-1][1]))
        found.append((across(ms), up(size)))
    return [*found, (across(timeline.profiled_ms), found[-1][1])]
