"""Lines of the user's own code, from the call stacks that were recorded with operations (`with_stack=True`).

Newer versions of Kineto keep stacks as events of their own; those are not joined to operations here.
"""

from __future__ import annotations

import re
from functools import lru_cache

FRAME = re.compile(r"(?P<file>[^()]+)\((?P<line>\d{1,7})\): ")
LIBRARIES = re.compile(r"(?:^|/)(?:site-packages|dist-packages|lib/python[\d.]+|torch|<)/?")
MAX_STACK_CHARS = 20_000
MAX_LINES = 20  # of one operation


@lru_cache(maxsize=4_096)
def users_line(stack: str) -> str | None:
    """`train.py:54`: the innermost frame that is no library's. Frames are separated by `;`, the innermost first."""
    for text in stack[:MAX_STACK_CHARS].split(";"):
        frame = FRAME.match(text.strip())
        if frame and not LIBRARIES.search(frame["file"]):
            return f"{frame['file'].rpartition('/')[2][:200]}:{frame['line']}"
    return None


class Sources:
    """Calls of each operation (by its name's number) at each line."""

    def __init__(self) -> None:
        self.lines: dict[int, dict[str, int]] = {}

    def take(self, name: int, stack: object) -> None:
        line = users_line(stack) if type(stack) is str and stack else None
        if line is None:
            return
        known = self.lines.setdefault(name, {})
        if line in known or len(known) < MAX_LINES:
            known[line] = known.get(line, 0) + 1
