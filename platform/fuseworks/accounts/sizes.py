"""Bytes out of what people write for a quota: `50 GiB`, `512MiB`, `1048576`. Binary units only, as pages show them."""

from __future__ import annotations

import re

from fuseworks.accounts import errors  # noqa: F401  (fills the catalogue)
from fuseworks.core.errors import PlatformError
from fuseworks.core.figures import BINARY_UNITS

SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([KMGTP]?i?B)?", re.IGNORECASE)
POWERS = {unit.lower(): power for power, unit in enumerate(BINARY_UNITS)}
MOST_BYTES = 1 << 60  # a column of 64 bits holds eight times as much


def bytes_of(text: str) -> int:
    """Raises PlatformError (`accounts:usage:size`): decimal units too, which would silently mean something else."""
    found = SIZE.fullmatch(text.strip())
    power = POWERS.get((found[2] or "B").lower()) if found is not None else None
    size = float(found[1]) * 1024**power if found is not None and power is not None else -1.0
    if not 0 <= size <= MOST_BYTES:
        raise PlatformError("accounts:usage:size", place="quota", text=repr(text[:40]))
    return int(size)
