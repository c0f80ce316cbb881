"""What every table for spreadsheets does with a cell."""

from __future__ import annotations

from typing import Any


def cell(value: Any) -> Any:
    """A text of somebody else's that begins like a formula would be run by a spreadsheet."""
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r" and value else value
