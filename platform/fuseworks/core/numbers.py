"""Whole numbers out of what strangers send in headers, addresses and forms."""

from __future__ import annotations

MOST = 2**63 - 1  # of a column, and of any length that a file has


def whole_number(text: str | bytes) -> int | None:
    """None for whatever is not 0 to MOST in ASCII digits.

    `str.isdigit` takes "²", on which `int` fails; `int` takes the digits of every script, and fails on over 4300.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MOST))):
        return None
    number = int(text)
    return number if number <= MOST else None
