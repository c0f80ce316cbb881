"""What a rule looks for, in its module's own words. Read, not imported: a page that exports needs no rule to run."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "rules"
NAME = re.compile(r"[a-z][a-z0-9_]*")


@lru_cache(maxsize=256)
def description(rule: str) -> str:
    """Empty where there is no such rule (any more): findings of an older version are exported, too."""
    file = FOLDER / f"{rule}.py"
    if not NAME.fullmatch(rule) or not file.is_file():
        return ""
    return " ".join((ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split())


def sentence(rule: str) -> str:
    """The first one; the rule's name in words where nothing is known of it."""
    found = description(rule)
    first, dot, _ = found.partition(". ")
    return f"{first}." if dot else found or f"{rule.replace('_', ' ').capitalize()}."
