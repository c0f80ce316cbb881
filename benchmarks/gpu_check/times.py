"""What is told of a list of times. Plain arithmetic."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any


def summary_us(times: Sequence[float]) -> dict[str, Any]:
    ordered = sorted(times)
    return {
        "median_us": statistics.median(ordered),
        "p10_us": ordered[len(ordered) // 10],
        "p90_us": ordered[len(ordered) * 9 // 10],
        "calls": len(ordered),
    }
