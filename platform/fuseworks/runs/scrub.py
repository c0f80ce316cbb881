"""Makes what a stranger's code wrote storable: PostgreSQL takes no NUL, no lone surrogate, and no NaN in JSON.

Events and results quote exceptions, file names and prints of uploaded models. Not for judging whether they make sense.
"""

from __future__ import annotations

import math
from typing import Any

MAX_DEPTH = 64


class TooDeep(ValueError):
    """Nested further than any document of ours."""


def text(value: str, limit: int | None = None) -> str:
    """Without NUL, lone surrogates as question marks, at most `limit` characters."""
    return value.replace("\x00", "").encode("utf-8", "replace").decode()[:limit]


def storable(value: Any, depth: int = MAX_DEPTH) -> Any:
    """A copy of parsed JSON that a jsonb column takes; NaN and infinities become null. Raises TooDeep."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (list, dict)) and depth == 0:
        raise TooDeep(f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, list):
        return [storable(item, depth - 1) for item in value]
    if isinstance(value, dict):
        return {text(str(key)): storable(item, depth - 1) for key, item in value.items()}
    return value
