"""The file that a check leaves: saved after every step, gone on with, and begun anew where it is of something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu_check.record import Record, source

PLACE = {"device": "NVIDIA H200", "torch": "2.11.0", "triton": "3.6.0", "driver": "580"}
HEAD: dict[str, Any] = {"mode": "gpu", "date": "2026-01-02", "source": "abc", "place": PLACE}


def test_each_step_is_in_the_file_as_soon_as_it_is_told(tmp_path: Path) -> None:
    record = Record(tmp_path / "a" / "here.json", HEAD)
    record.told("check rms_norm", {"status": "passed"})
    assert json.loads(record.path.read_text())["steps"] == {"check rms_norm": {"status": "passed"}}
    record.told("tune rms_norm", {"status": "failed", "reason": "it died"})
    assert list(json.loads(record.path.read_text())["steps"]) == ["check rms_norm", "tune rms_norm"]
    assert [path.name for path in record.path.parent.iterdir()] == ["here.json"]


def test_it_goes_on_with_what_was_not_done(tmp_path: Path) -> None:
    path = tmp_path / "here.json"
    first = Record(path, HEAD)
    for step, status in (("a", "passed"), ("b", "failed"), ("c", "cut"), ("d", "wrong"), ("e", "left_out")):
        first.told(step, {"status": status})
    again = Record.open(path, {**HEAD, "date": "2026-01-03"})
    assert again.anew is None
    assert again.open_steps(["a", "b", "c", "d", "e", "f"]) == ["b", "c", "e", "f"]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"source": "def"}, "source"),
        ({"mode": "interpreter"}, "mode"),
        ({"place": {**PLACE, "triton": "3.7.1"}}, "place.triton"),
        ({"place": {**PLACE, "device": "NVIDIA B200"}}, "place.device"),
    ],
)
def test_what_another_place_or_source_did_is_not_taken_over(
    tmp_path: Path, changed: dict[str, Any], reason: str
) -> None:
    path = tmp_path / "here.json"
    Record(path, HEAD).told("a", {"status": "passed"})
    again = Record.open(path, {**HEAD, **changed})
    assert again.steps == {} and again.anew == f"another {reason} than the file's"


def test_all_is_done_anew_where_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "here.json"
    Record(path, HEAD).told("a", {"status": "passed"})
    assert Record.open(path, HEAD, anew=True).open_steps(["a"]) == ["a"]


def test_the_digest_of_the_source_is_the_same_at_every_call() -> None:
    assert source() == source() and len(source()) == 16
