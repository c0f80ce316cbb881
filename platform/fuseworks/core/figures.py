"""Figures as text: how latencies, sizes, speed-ups, shares and durations read on every page. No HTML here.

A figure that is missing reads `–`, so that an empty cell is not taken for a page that did not load.
"""

from __future__ import annotations

import math
from typing import Any

from django.utils.translation import gettext as _

MISSING = "–"
BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def number(value: Any) -> float | None:
    """The value as a finite number; None for what is missing or is none."""
    if value is None or value == "" or isinstance(value, bool):
        return None
    try:
        result = float(value)
    except (TypeError, ValueError):
        return None
    return result if math.isfinite(result) else None


def three_digits(value: float) -> str:
    """At least three significant digits, never an exponent: 0.0123, 4.87, 15.1, 1235."""
    if value == 0:
        return "0"
    exponent = int(f"{abs(value):.2e}".partition("e")[2])  # after rounding: 9.996 counts as 10.0
    return f"{value:.{max(0, 2 - exponent)}f}"


def milliseconds(value: Any) -> str:
    found = number(value)
    return MISSING if found is None else f"{three_digits(found)} ms"


def size(value: Any) -> str:
    """Bytes in binary units: `512 B`, `1.50 KiB`, `148 MiB`."""
    found = number(value)
    if found is None:
        return MISSING
    unit = 0
    while abs(found) >= 1023.5 and unit < len(BINARY_UNITS) - 1:
        found /= 1024
        unit += 1
    text = f"{found:.0f}" if unit == 0 else three_digits(found)
    return f"{text} {BINARY_UNITS[unit]}"


def speedup(value: Any) -> str:
    found = number(value)
    return MISSING if found is None else f"{found:.2f}×"


def percent(value: Any) -> str:
    """A share as a percentage: 0.073 is `7.3 %`."""
    found = number(value)
    return MISSING if found is None else f"{found * 100:.1f} %"


def duration(value: Any) -> str:
    """Seconds as people say them: `0.4 s`, `42 s`, `4 min 55 s`, `1 h 2 min`."""
    found = number(value)
    if found is None:
        return MISSING
    if abs(found) < 9.95:
        return _("%(seconds)s s") % {"seconds": f"{found:.1f}"}
    minutes, seconds = divmod(round(found), 60)
    if minutes == 0:
        return _("%(seconds)s s") % {"seconds": seconds}
    if minutes < 60:
        return _("%(minutes)s min %(seconds)s s") % {"minutes": minutes, "seconds": seconds}
    hours, minutes = divmod(round(found / 60), 60)
    return _("%(hours)s h %(minutes)s min") % {"hours": hours, "minutes": minutes}


def interval(low: Any, high: Any) -> str:
    """The ends of an interval of a speed-up: `[2.50, 3.71]`."""
    ends = number(low), number(high)
    if ends[0] is None or ends[1] is None:
        return MISSING
    return f"[{ends[0]:.2f}, {ends[1]:.2f}]"
