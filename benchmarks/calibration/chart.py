"""The power curve as an SVG file of its own, with its colours in it: reports are read without the site's styles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import escape

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 44, 130
SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
# Told apart without colour, too: each line has dashes of its own.
LINES = (("#1f5fbf", ""), ("#0a7d55", "7 4"), ("#b8480f", "2 4"), ("#7a2f9a", "10 3 2 3"))
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#222}.title{font-weight:600}.grid{stroke:#ddd}"
    ".whisker{stroke-width:1.2}.line{fill:none;stroke-width:2.2}"
)

Point = tuple[float, float, float, float]  # difference, share, and the ends of the share's interval


def power_curve(series: Mapping[str, Sequence[Point]], title: str) -> str:
    """Differences across, the share of judgements that found them up, a line for each series with whiskers."""
    points = [point for one in series.values() for point in one]
    if not points:
        raise ValueError("no points to draw")
    if len(series) > len(LINES):
        raise ValueError(f"{len(series)} lines, and there are only {len(LINES)} kinds")
    most = max(point[0] for point in points)
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def across(difference: float) -> float:
        return LEFT + (right - LEFT) * difference / most

    def up(share: float) -> float:
        return bottom - (bottom - TOP) * share

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title)}"><style>{STYLE}</style>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text class="title" x="{LEFT}" y="24">{escape(title)}</text>',
    ]
    for share in SHARES:
        y = up(share)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{share * 100:.0f} %</text>')
    for difference in sorted({point[0] for point in points}):
        x = across(difference)
        parts.append(f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{difference * 100:g} %</text>')
    for index, ((name, line), (colour, dashes)) in enumerate(zip(series.items(), LINES, strict=False)):
        path = " ".join(f"{across(x):.1f},{up(share):.1f}" for x, share, _, _ in line)
        stroke = f'stroke="{colour}" stroke-dasharray="{dashes}"'
        parts.append(f'<polyline class="line" points="{path}" {stroke}/>')
        for x, _, low, high in line:
            ends = f'x1="{across(x):.1f}" x2="{across(x):.1f}" y1="{up(low):.1f}" y2="{up(high):.1f}"'
            parts.append(f'<line class="whisker" {ends} stroke="{colour}"/>')
        y = bottom + 48 + 20 * index
        parts.append(f'<line class="line" x1="{LEFT}" x2="{LEFT + 36}" y1="{y - 4}" y2="{y - 4}" {stroke}/>')
        parts.append(f'<text x="{LEFT + 46}" y="{y}">{escape(name)}</text>')
    parts.append("</svg>\n")
    return "\n".join(parts)
