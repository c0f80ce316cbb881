"""Time against memory as inline SVG: what is on the front is filled and named, what is dominated is a ring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from optimizer.reporting.charts import MARGIN, WIDTH, Log, opened, shortened, ticks

LEFT, TOP, BOTTOM = 90, 16, 276
AROUND = 1.15  # beyond the outermost points


@dataclass(frozen=True)
class Dot:
    """`x` in milliseconds, `y` in MiB. `tone` is a CSS class: good, bad or plain."""

    label: str
    x: float
    y: float
    tone: str
    filled: bool


def scatter(dots: Sequence[Dot], title: str) -> Markup:
    """Both axes are logarithmic; down and left is better. Nothing where fewer than two points are known."""
    if len(dots) < 2:
        return Markup("")
    low_x, high_x = min(dot.x for dot in dots) / AROUND, max(dot.x for dot in dots) * AROUND
    low_y, high_y = max(min(dot.y for dot in dots), 0.1) / AROUND, max(*(dot.y for dot in dots), 0.1) * AROUND
    across, up = Log(low_x, high_x, LEFT, WIDTH - MARGIN), Log(low_y, high_y, BOTTOM, TOP)
    parts = [opened(BOTTOM + 44, title)]
    for tick in ticks(low_x, high_x):
        x = across(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{BOTTOM}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{BOTTOM + 18}" text-anchor="middle">{tick:g} ms</text>')
    for tick in ticks(low_y, high_y):
        y = up(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - MARGIN}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:g} MiB</text>')
    for dot in dots:
        x, y = across(dot.x), up(max(dot.y, 0.1))
        kind = f"dot {dot.tone}" if dot.filled else f"ring {dot.tone}"
        parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="5"/>')
        if dot.filled:
            side, anchor = (-9, "end") if x > WIDTH / 2 else (9, "start")
            name = shortened(dot.label, 44)
            parts.append(f'<text class="label" x="{x + side:.1f}" y="{y - 8:.1f}" text-anchor="{anchor}">{name}</text>')
    parts.append("</svg>")
    return Markup("".join(parts))  # numbers, and names that were escaped
