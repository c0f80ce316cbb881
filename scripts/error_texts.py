"""The texts of all errors as messages to translate: context `error message` or `error remedy`, id, English text.

Imports every module that files errors, so it is for .venv alone; compiling what is translated needs none of this.
A text that is nothing but a placeholder is left out: what fills it is told as it stands.
"""

from __future__ import annotations

import importlib
import re
import string
import sys
from pathlib import Path

from catalogue import Message

ROOT = Path(__file__).resolve().parent.parent
ROOMS = (("optimizer", ROOT), ("workers", ROOT), ("platform/fuseworks", ROOT / "platform"))
MESSAGE, REMEDY = "error message", "error remedy"  # as core/telling.py asks for them

_FILES_ERRORS = re.compile(r"^catalogue\(", re.MULTILINE)
_ENTRY = re.compile(r"""^\s+"([a-z_]+:(?:user|ours|usage):[a-z0-9-]+)": ?\(""", re.MULTILINE)


def messages() -> list[Message]:
    """Of every entry of every catalogue, in the order of files and ids."""
    sys.path[:0] = [folder for folder in (str(ROOT), str(ROOT / "platform")) if folder not in sys.path]
    from optimizer.errors import CATALOGUE

    found = []
    for room, root in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if _FILES_ERRORS.search(text) is None:
                continue
            importlib.import_module(".".join(path.relative_to(root).with_suffix("").parts))
            for id_ in _ENTRY.findall(text):
                entry, place = CATALOGUE[id_], path.relative_to(ROOT).as_posix()
                for context, english in ((MESSAGE, entry.message), (REMEDY, entry.remedy)):
                    if says_something(english):
                        found.append(Message(id_, context, places=[place], note=english))
    return found


def says_something(text: str) -> bool:
    return any(literal.strip() for literal, *_ in string.Formatter().parse(text))


def fields(text: str) -> set[str]:
    """The names that fill a format string. Raises ValueError when it is none."""
    return {name for _, name, *_ in string.Formatter().parse(text) if name is not None}
