"""Large traces: time and memory, over a real child."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from optimizer.coordinator import traces
from optimizer.coordinator.diagnose import diagnose
from optimizer.diagnosing.traces import recording
from optimizer.errors import FuseworksError
from tests.optimizer.diagnosing.traces.building import Building
from tests.optimizer.diagnosing.traces.training import Training

MIB = 1 << 20


def large(path: Path, size_bytes: int) -> Path:
    """The same training over and over, as long as it takes; times and correlations go on (`@` is the repetition)."""
    job = Training().run()
    for event in job.events:
        event["ts"] = f"@{event['ts']:012.3f}"
        if "correlation" in event.get("args", {}):
            event["args"]["correlation"] = f"@{event['args']['correlation']:06d}"
    text = re.sub(r'"(@[\d.]+)"', r"\1", ",\n".join(json.dumps(event, indent=2) for event in job.events))
    with path.open("w") as file:
        file.write(json.dumps(job.header)[:-1] + ', "traceEvents": [\n')
        for repetition in range(1, size_bytes // len(text) + 1):
            file.write(text.replace("@", str(repetition)) + ",\n")
        file.write(text.replace("@", "9999") + "]}")
    return path


@pytest.mark.slow
def test_a_hundred_megabytes_are_diagnosed_within_half_a_minute(tmp_path: Path) -> None:
    path = large(tmp_path / "large.json", 100 * MIB)
    began = time.monotonic()
    answer = diagnose([path])
    taken_s = time.monotonic() - began
    assert answer.problem is None
    assert answer.facts["events"] > 200_000
    assert taken_s < 30


@pytest.mark.slow
def test_a_gigabyte_is_read_within_two_gigabytes_of_memory(tmp_path: Path) -> None:
    assert traces.MEMORY_BYTES == 2 << 30  # the child is ended beyond that
    answer = diagnose([large(tmp_path / "large.json", 950 * MIB)])
    assert answer.problem is None
    assert answer.facts["events"] > 2_000_000


def test_more_events_than_memory_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MAX_EVENTS", 100)
    with pytest.raises(FuseworksError) as caught:
        Training().run().read()
    assert caught.value.id == "diagnosing:user:too-many-events"
    assert "more than 100 events" in caught.value.message


def test_operations_without_end_inside_each_other_take_no_time_without_end() -> None:
    job = Building()
    for at in range(3_000):
        job.op("aten::relu", 10, 5 + at / 1000)
        job.kernel("k", 100 + at, 1, ahead=70 + at)  # launched at 30, after all of them
    began = time.monotonic()
    rank = job.read()
    assert time.monotonic() - began < 10
    assert (rank.operation_rows[0].calls, rank.operation_rows[0].gpu_ms) == (3_000, 0)
