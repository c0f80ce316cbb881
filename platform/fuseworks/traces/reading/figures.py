"""Facts and evidence as a person reads them: the unit is in the name (`_ms`, `_share`, `_bytes`), and so the format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.utils.translation import gettext as _

from fuseworks.core import figures

MOST_ENTRIES = 12
UNITS: tuple[tuple[str, Callable[[Any], str]], ...] = (
    ("_share", figures.percent),
    ("_percent", lambda value: f"{value:.0f} %"),
    ("_ms", figures.milliseconds),
    ("_ms_per_step", figures.milliseconds),
    ("_us", lambda value: f"{figures.three_digits(value)} µs"),
    ("_bytes_per_s", lambda value: f"{figures.size(value)}/s"),
    ("_bytes", figures.size),
)


def figure(name: str, value: Any) -> str:
    """One value; of several the first dozen. Empty where there is nothing to tell."""
    if value is None or value in ([], {}, ""):
        return ""
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, Mapping):
        told = [f"{key} {figure(name, one)}" for key, one in entries(value)[:MOST_ENTRIES] if one is not None]
        return ", ".join(told) + (" …" if len(value) > MOST_ENTRIES else "")
    if isinstance(value, (list, tuple)):
        return ", ".join(figure(name, one) for one in value[:MOST_ENTRIES]) + (
            " …" if len(value) > MOST_ENTRIES else ""
        )
    if not isinstance(value, (int, float)):
        return str(value)
    return _number(name, value)


def entries(table: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The largest first: the database keeps no order of an object's keys."""
    if all(isinstance(one, (int, float)) or one is None for one in table.values()):
        return sorted(table.items(), key=lambda item: (-(item[1] or 0), item[0]))
    return sorted(table.items())


def _number(name: str, value: float) -> str:
    shown = next((unit for end, unit in UNITS if name.endswith(end) or f"{end}_of_" in name), None)
    if shown is not None:
        return shown(value)
    return f"{value:,}" if isinstance(value, int) else figures.three_digits(value)
