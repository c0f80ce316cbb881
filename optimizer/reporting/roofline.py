"""Operations under the machine's measured roofs as inline SVG: what each computes for a byte, and how fast it did.

Left of a roof's corner the memory binds, right of it the arithmetic. A dot above the slope had its data out of a cache.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from markupsafe import Markup

from optimizer.reporting.charts import (
    MARGIN,
    WIDTH,
    Log,
    across_at,
    opened,
    shortened,
    ticks,
    upright_at,
    written,
)
from optimizer.result import Operation, Profile

LEFT, TOP, BOTTOM = 110, 16, 316
AROUND, MOST_LABELS, LABELLED, MOST_CHARS = 1.6, 6, 0.02, 44


@dataclass(frozen=True)
class _Work:
    label: str
    intensity: float
    flops_per_s: float
    share: float
    bound: str


def roofline(profile: Profile | None, title: str) -> Markup:
    """Both axes are logarithmic. Nothing where no roof was measured, or no operation tells FLOPs and bytes."""
    bandwidth = profile.roofs.get("bandwidth_bytes_per_s") if profile is not None else None
    rates = {k: v for k, v in dict(profile.roofs.get("gemm_flops_per_s") or {}).items() if v} if profile else {}
    if profile is None or not bandwidth or not rates:
        return Markup("")
    works = [_work(row, bandwidth, rates) for row in profile.operations if row.flops and row.bytes and row.self_ms > 0]
    if not works:
        return Markup("")
    corners = [rate / bandwidth for rate in rates.values()]
    xs, ys = [w.intensity for w in works] + corners, [w.flops_per_s for w in works] + list(rates.values())
    low_x, high_x, low_y, high_y = min(xs) / AROUND, max(xs) * AROUND, min(ys) / AROUND, max(ys) * AROUND
    across, up = Log(low_x, high_x, LEFT, WIDTH - MARGIN), Log(low_y, high_y, BOTTOM, TOP)
    parts = [opened(BOTTOM + 60, title)]
    right = WIDTH - MARGIN
    for tick in ticks(low_x, high_x):
        parts += [upright_at(across(tick), TOP, BOTTOM), written(across(tick), BOTTOM + 18, f"{tick:g}")]
    for tick in ticks(low_y, high_y):
        about = f"{tick / 1e9:g} GFLOP/s"
        parts += [across_at(up(tick), LEFT, right), written(LEFT - 8, up(tick) + 4, about, anchor="end")]
    parts.append(written(right, BOTTOM + 40, "FLOPs for each byte", anchor="end"))
    for name, most in rates.items():
        # the slope enters from below, or from the left
        first = max(low_x, low_y / bandwidth)
        points = [(first, first * bandwidth), (most / bandwidth, most), (high_x, most)]
        drawn = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in points)
        parts += [f'<polyline class="roof" points="{drawn}"/>', written(right, up(most) - 6, name, anchor="end")]
    named = {id(work) for work in sorted(works, key=lambda w: -w.share)[:MOST_LABELS] if work.share >= LABELLED}
    for work in sorted(works, key=lambda w: -w.share):
        parts += _dot(work, across(work.intensity), up(work.flops_per_s), id(work) in named)
    parts.append("</svg>")
    return Markup("".join(parts))  # numbers, and names that were escaped


def _work(row: Operation, bandwidth: float, rates: dict[str, float]) -> _Work:
    assert row.flops and row.bytes
    rate = rates.get("bfloat16" if "bfloat16" in row.dtypes else "float32", max(rates.values()))
    intensity = row.flops / row.bytes
    where = row.module or row.source
    label = f"{row.op} ({where})" if where else row.op
    return _Work(
        label,
        intensity,
        row.flops / (row.self_ms / 1e3),
        row.share,
        "memory" if intensity < rate / bandwidth else "arithmetic",
    )


def _dot(work: _Work, x: float, y: float, named: bool) -> list[str]:
    radius = 3 + 12 * math.sqrt(work.share)
    about = f"{work.label}: {work.share:.1%} of the time, {work.intensity:.3g} FLOPs for each byte"
    drawn = [
        f"<g><title>{shortened(about, 200)}; the {work.bound} binds</title>"
        f'<circle class="work {work.bound}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/></g>'
    ]
    if named:
        side, anchor = (-radius - 4, "end") if x > WIDTH / 2 else (radius + 4, "start")
        name = work.label if len(work.label) <= MOST_CHARS else f"{work.label[: MOST_CHARS - 1]}…"
        drawn.append(written(x + side, y + 4, name, "label", anchor))
    return drawn
