"""What is kept: it goes on where it was cut, and mixes with nothing that was measured otherwise."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from benchmarks.predictions import record as recording_of
from benchmarks.predictions.recording import (
    LINES,
    Header,
    RecordedGain,
    RecordedVariant,
    Recording,
    records,
)
from benchmarks.predictions.variants import Variant
from benchmarks.recordings import RecordingError

AT = datetime(2026, 1, 1, tzinfo=UTC)
HEADER = Header(sets=2, rounds=6, seed=0, fingerprint="f" * 64, fixed={"cpu": "one"})
QUITE_OTHER = {"conv2d": 5}


def variant(model: str, factor: float | None = None, **fields: Any) -> RecordedVariant:
    factors = {"batch": factor} if factor else {}
    return RecordedVariant(model=model, factors=factors, at=AT, seconds=1.0, **fields)


def gain(key: str, *logs: float) -> RecordedGain:
    return RecordedGain(key=key, low=1.1, high=1.3, log_speedups=list(logs), not_measured="" if logs else "no")


def test_a_gain_is_the_geometric_mean_over_its_sets() -> None:
    assert gain("a", math.log(1.0), math.log(1.44)).realised == pytest.approx(1.2)


def test_what_was_recorded_is_not_recorded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def recorded(one: Variant, head: Header) -> RecordedVariant:
        done.append(one.name)
        return RecordedVariant(model=one.model, factors=one.factors, at=AT, seconds=1.0)

    monkeypatch.setattr(recording_of, "record_variant", recorded)
    chosen = [Variant("a", {}, ""), Variant("a", {"batch": 4}, ""), Variant("b", {}, "")]
    recording_of.record(tmp_path, chosen[:2], HEADER, say=lambda text: None)
    recording_of.record(tmp_path, chosen, HEADER, say=lambda text: None)
    assert done == ["a (as it is)", "a (batch x4)", "b (as it is)"]


def test_none_is_begun_after_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(one: Variant, head: Header) -> RecordedVariant:
        raise AssertionError("it was begun")

    monkeypatch.setattr(recording_of, "record_variant", never)
    told: list[str] = []
    recording_of.record(tmp_path, [Variant("a", {}, "")], HEADER, say=told.append, until=0.0)
    assert "1 variants are left" in told[-1]


def test_another_way_of_measuring_is_refused(tmp_path: Path) -> None:
    Recording(tmp_path).begin(HEADER)
    with pytest.raises(RecordingError, match="another rounds"):
        Recording(tmp_path).begin(HEADER.model_copy(update={"rounds": 10}))
    assert Recording(tmp_path).header() == HEADER


def test_a_line_that_is_none_is_named(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    recording.begin(HEADER)
    recording.append(variant("a", gains=[gain("k", 0.1)]))
    assert recording.variants() == [variant("a", gains=[gain("k", 0.1)])]
    with (tmp_path / LINES).open("a") as file:
        file.write("{}\n")
    with pytest.raises(RecordingError, match=f"{LINES}:2"):
        recording.variants()


def test_records_are_the_measured_gains_with_models_that_are_alike_as_one() -> None:
    variants = [
        variant("din", operations={"linear": 8, "relu": 4}, gains=[gain("k", 0.1), gain("never")]),
        variant("din_twin", operations={"linear": 8, "relu": 3}, gains=[gain("k", 0.2)]),
        variant("din", 4, operations={"linear": 2}, gains=[gain("k", 0.3)]),
        variant("unet", operations=QUITE_OTHER, gains=[gain("k", 0.4)]),
        variant("lost", lost="it failed"),
    ]
    found = records(variants)
    assert [(one.model, round(math.log(one.realised), 3)) for one in found] == [
        ("din", 0.1),
        ("din", 0.2),
        ("din", 0.3),
        ("unet", 0.4),
    ]
    assert (found[0].key, found[0].low, found[0].high) == ("k", 1.1, 1.3)
