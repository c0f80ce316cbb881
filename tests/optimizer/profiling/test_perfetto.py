"""A profile as a trace: by the trace-event format, with modules around their operations and memory beside them."""

from __future__ import annotations

import json
from typing import Any

from optimizer.profiling.document import MemoryTimeline, OperationSpan, Profile
from optimizer.profiling.perfetto import OPERATIONS, PARTS, write


def span(op: str, at_ms: float, ms: float, module: str | None = None, **more: Any) -> OperationSpan:
    return OperationSpan(op=op, at_ms=at_ms, ms=ms, module=module, **more)


TIMELINE = [
    span("linear", 1.0, 2.0, "layers.0.proj", source="model.py:7", phase="forward"),
    span("relu", 3.5, 0.5, "layers.0"),
    span("linear", 4.5, 1.0, "layers.1"),
    span("cat", 6.0, 1.0),
    span("linear", 8.0, 1.0, "layers.0"),
]
MEMORY = MemoryTimeline(
    points=[(0.0, 0), (1.5, 4096), (9.0, 0)],
    peak_bytes=4096,
    peak_at_ms=1.5,
    resident_bytes=0,
    profiled_ms=9.0,
    phases=[{"name": "forward", "from_ms": 0.0, "to_ms": 6.0}],  # type: ignore[list-item]
)


def events(**more: Any) -> list[dict[str, Any]]:
    profile = Profile(total_ms=9.0, timeline=TIMELINE, how_obtained="by hand", **more)
    document = json.loads(write(profile, "model.py"))
    assert document["displayTimeUnit"] == "ms"
    return list(document["traceEvents"])


def slices(kind: str, **more: Any) -> dict[tuple[str, float], float]:
    found = [one for one in events(**more) if one["ph"] == "X" and one["cat"] == kind]
    return {(one["name"], one["ts"]): one["dur"] for one in found}


def test_every_event_has_what_the_format_asks_for() -> None:
    for event in events(memory=MEMORY):
        assert {"ph", "name", "pid", "tid"} <= set(event)
        if event["ph"] == "X":
            assert event["ts"] >= 0 and event["dur"] >= 0, "microseconds"
        elif event["ph"] == "C":
            assert set(event["args"]) == {"bytes"}
        else:
            assert event["ph"] == "M" and event["args"]["name"]


def test_operations_are_slices_in_microseconds_with_module_and_line() -> None:
    assert slices("operation")["linear", 1000.0] == 2000.0
    first = next(one for one in events() if one["ph"] == "X" and one["name"] == "linear")
    assert first["args"] == {"module": "layers.0.proj", "source": "model.py:7", "phase": "forward"}


def test_a_module_lasts_from_its_first_operation_to_its_last_with_none_of_others_between() -> None:
    assert slices("module") == {
        ("proj", 1000.0): 2000.0,
        ("0", 1000.0): 3000.0,
        ("1", 4500.0): 1000.0,
        ("layers", 1000.0): 4500.0,
        ("layers", 8000.0): 1000.0,
        ("0", 8000.0): 1000.0,
    }


def test_slices_of_one_thread_lie_inside_each_other_or_apart() -> None:
    found = [(one["ts"], one["ts"] + one["dur"]) for one in events() if one["ph"] == "X" and one["tid"] == OPERATIONS]
    for first, last in found:
        for begin, end in found:
            apart = end <= first or last <= begin
            assert apart or (first <= begin and end <= last) or (begin <= first and last <= end)


def test_memory_is_a_counter_and_the_parts_of_a_step_a_thread_of_their_own() -> None:
    counted = [(one["ts"], one["args"]["bytes"]) for one in events(memory=MEMORY) if one["ph"] == "C"]
    assert counted == [(0.0, 0), (1500.0, 4096), (9000.0, 0)]
    (part,) = [one for one in events(memory=MEMORY) if one.get("cat") == "part"]
    assert (part["name"], part["tid"], part["dur"]) == ("forward", PARTS, 6000.0)


def test_without_memory_there_is_no_counter() -> None:
    assert not [one for one in events() if one["ph"] == "C"]
