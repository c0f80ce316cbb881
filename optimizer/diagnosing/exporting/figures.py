"""Figures with their units, as the names of facts and evidence tell them (`span_ms`, `gpu_busy_share`); and plain text.

Names out of a trace are a stranger's: control characters go, so that nothing drives a terminal or breaks a line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

MOST_KINDS, MOST_NAME = 6, 60
_BINARY = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def plain(text: object) -> str:
    return "".join(c if c.isprintable() else "?" for c in str(text))


def told(name: str, value: Any, most: int = MOST_KINDS) -> str:
    """In words and with its unit; empty where there is nothing to tell. `most`: entries of a table within it."""
    if value is None or value == [] or value == {}:
        return ""
    if isinstance(value, Mapping):
        entries = [(key, one) for key, one in value.items() if one is not None]
        shown = ", ".join(f"{plain(key)[:MOST_NAME]} {told(name, one, most) or 0}" for key, one in entries[:most])
        return shown + (f" and {len(entries) - most} more" if len(entries) > most else "")
    if isinstance(value, list | tuple):
        return ", ".join(told(name, one, most) if isinstance(one, float) else plain(one) for one in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _unit(name)(value)
    return plain(value)


def _unit(name: str) -> Callable[[float], str]:
    words = name.split("_")
    if "share" in words:
        return "{:.1%}".format
    if "bytes" in words:
        return (lambda value: f"{_size(value)}/s") if name.endswith("bytes_per_s") else _size
    if "ms" in words:
        return "{:,.2f} ms".format
    if "us" in words:
        return "{:,.2f} us".format
    return _number


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _size(value: float) -> str:
    for unit, name in _BINARY:
        if abs(value) >= unit:
            return f"{value / unit:,.1f} {name}"
    return f"{value:,.0f} B"


def flat(document: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested tables as rows: `libraries.torch`, `2.13.0`."""
    rows: list[tuple[str, str]] = []
    for key, value in document.items():
        if isinstance(value, Mapping):
            rows += flat(value, f"{prefix}{key}.")
        else:
            text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            rows.append((f"{prefix}{key}", text))
    return rows
