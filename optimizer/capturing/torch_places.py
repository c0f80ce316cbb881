"""Finds the user's own line: in a traceback, in what torch.export says, and in a node's metadata."""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass
from pathlib import Path

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


@dataclass(frozen=True)
class Sources:
    """The user's files: all below `root`, or the one file that `root` is, called `shown` to the user."""

    root: Path
    shown: str = "model.py"

    def place(self, filename: str, line: int | None) -> str | None:
        """`model.py:41` for a file of the user's, else None."""
        path = Path(filename)
        if path == self.root:
            name = self.shown
        elif self.root in path.parents:
            name = path.relative_to(self.root).as_posix()
        else:
            return None
        return f"{name}:{line}" if line else name

    def of_exception(self, error: BaseException) -> str | None:
        """The innermost frame of the user's; torch.export may swallow the frames and leave them in its text."""
        if isinstance(error, SyntaxError) and error.filename and (at := self.place(error.filename, error.lineno)):
            return at
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            if at := self.place(frame.filename, frame.lineno):
                return at
        at = self.of_text(str(error))
        if at is None and error.__cause__ is not None:
            return self.of_exception(error.__cause__)
        return at

    def of_text(self, text: str | None) -> str | None:
        """The last line of the user's that `text` (a message or a node's `stack_trace`) names."""
        for filename, line in reversed(frames(text)):
            if at := self.place(filename, line):
                return at
        return None


def frames(text: str | None) -> list[tuple[str, int]]:
    """Every `File "...", line N` in a text, outermost first."""
    return [(filename, int(line)) for filename, line in _FRAME.findall(text or "")]
