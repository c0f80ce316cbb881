"""Traces of public projects, which are no part of this one: tests that need them skip where they are absent."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.recording import read
from optimizer.diagnosing.traces.source import pieces
from optimizer.diagnosing.traces.summary import summarize

TRACES = Path(__file__).resolve().parents[5] / "shared" / "data" / "traces"


def path_of(name: str) -> Path:
    path = TRACES / f"{name}.json.gz"
    if not path.exists():
        pytest.skip("needs ../shared: traces of public projects")
    return path


@cache
def trace(name: str) -> RankTrace:
    path = path_of(name)
    return summarize(read(pieces(path)), path.name)
