"""Where a finding points: lines of the user's code, and what it names in a graph or a trace."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from optimizer.diagnosing.exporting.figures import plain
from optimizer.result import Finding

AT = re.compile(r"(?P<file>[^:]+)(?::(?P<line>[1-9]\d{0,8}))?")


@dataclass(frozen=True)
class Line:
    """`line` is None where only the file is known."""

    file: str
    line: int | None


def lines(finding: Finding) -> list[Line]:
    """In the order of the evidence. Of a trace: the line that called most first."""
    listed: Any = finding.evidence.get("sources") or finding.evidence.get("source") or []
    if isinstance(listed, str):
        listed = [listed]
    found = [AT.fullmatch(plain(one).strip()) for one in listed]
    return [Line(at["file"], int(at["line"]) if at["line"] else None) for at in found if at]


def named(finding: Finding) -> tuple[str, str] | None:
    """(name, SARIF's kind) of what has no line: a module of the model, a trace of the job, an operation."""
    for key, kind in (("module", "module"), ("trace", "resource"), ("op", "function")):
        value = finding.evidence.get(key)
        if isinstance(value, str) and value:
            return plain(value), kind
    return None
