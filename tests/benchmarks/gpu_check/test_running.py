"""Children that end, die or never end: what is told of their steps."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest

from benchmarks.gpu_check import running

# A child that does what its steps are called.
ODD = """
import json, os, sys, time
steps = [a for a in sys.argv[1:] if a in ("good", "bad", "die", "sleep", "last", "refuse")]
if "refuse" in steps[:1]:
    sys.exit("triton is too old")
for step in steps:
    print(json.dumps({"begun": step}), flush=True)
    if step == "die":
        sys.stderr.write("illegal memory access")
        os._exit(7)
    if step == "sleep":
        time.sleep(60)
    print(json.dumps({"done": step, "outcome": {"status": "wrong" if step == "bad" else "passed"}}), flush=True)
"""


def taken(monkeypatch: pytest.MonkeyPatch, *steps: str, seconds: float = 30.0, workers: int = 1) -> dict[str, Any]:
    monkeypatch.setattr(running, "_command", lambda interpreter, left, rest: [sys.executable, "-c", ODD, *rest])
    monkeypatch.setattr(running, "GRACE_S", 0.2)
    found: dict[str, Any] = {}
    until = time.monotonic() + seconds
    running.take(steps, found.__setitem__, workers=workers, until=until, interpreter=False)
    return found


def test_each_step_is_told_once_by_however_many_children(monkeypatch: pytest.MonkeyPatch) -> None:
    found = taken(monkeypatch, "good", "bad", "last", workers=2)
    assert {step: one["status"] for step, one in found.items()} == {"good": "passed", "bad": "wrong", "last": "passed"}


def test_a_child_that_dies_fails_its_step_and_the_rest_goes_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    found = taken(monkeypatch, "good", "die", "last")
    assert (found["good"]["status"], found["last"]["status"]) == ("passed", "passed")
    assert found["die"]["status"] == "failed"
    assert found["die"]["reason"] == "its process ended with 7: illegal memory access"


def test_a_child_that_does_not_begin_is_told_with_what_it_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = taken(monkeypatch, "refuse", "last")
    assert found["refuse"]["status"] == "failed" and found["last"]["status"] == "passed"
    assert found["refuse"]["reason"] == "its process ended before it began: triton is too old\n"


def test_a_step_that_does_not_end_is_cut_and_what_follows_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found = taken(monkeypatch, "good", "sleep", "last", seconds=2.0)
    assert found["sleep"] == {"status": "cut", "reason": "its time was over"}
    assert "last" not in found


def test_nothing_is_begun_once_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    assert taken(monkeypatch, "good", seconds=-1.0) == {}


def test_only_children_that_interpret_are_told_so() -> None:
    assert running._environment(True)["TRITON_INTERPRET"] == "1"
    assert "TRITON_INTERPRET" not in running._environment(False)
