"""Whole numbers of strangers: one way to read them, which no text can break."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fuseworks.core.numbers import whole_number

PLATFORM = Path(__file__).resolve().parents[3] / "platform" / "fuseworks"
# Written by whoever runs the site, who is told at its start.
OPERATORS = {"settings/environment.py", "core/health.py"}


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), (b"42", 42), ("9223372036854775807", 2**63 - 1)])
def test_ascii_digits_are_a_number(text: str | bytes, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize(
    "text", ["", " 1", "-1", "+1", "1.0", "1_0", "²", "٣", "３", b"\xb2", "1" * 5000, "9223372036854775808", "1\n"]
)
def test_whatever_else_is_none(text: str | bytes) -> None:
    assert whole_number(text) is None


def test_nothing_else_in_the_platform_asks_whether_a_text_has_digits() -> None:
    asks = re.compile(r"\.is(?:digit|decimal|numeric)\(")
    found = {
        path.relative_to(PLATFORM).as_posix()
        for path in PLATFORM.rglob("*.py")
        if asks.search(path.read_text(encoding="utf-8"))
    }
    assert found - OPERATORS == {"core/numbers.py"}
