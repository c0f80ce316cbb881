"""A profile on a terminal: the costliest operations, and whose bytes are alive at the peak."""

from __future__ import annotations

from typing import Any

from optimizer.reporting.profile_text import MOST_OPERATIONS, lines
from optimizer.result import MemoryTimeline, Operation, Profile

MEMORY = MemoryTimeline.model_validate(
    {
        "points": [],
        "peak_bytes": 8 << 20,
        "peak_at_ms": 1.0,
        "resident_bytes": 33 << 20,
        "profiled_ms": 2.0,
        "owners": [
            {"op": "linear", "source": "din.py:41", "bytes": 6 << 20, "share": 0.75, "tensors": 2, "phase": "forward"}
        ],
    }
)


def profile(*operations: Operation, **more: Any) -> Profile:
    return Profile(operations=list(operations), total_ms=1.0, **more)


def operation(**more: Any) -> Operation:
    return Operation.model_validate({"op": "linear", "calls": 1, "self_ms": 4.4, "share": 0.55, **more})


def test_the_costliest_operations_come_with_their_lines() -> None:
    given = profile(operation(source="din.py:41"), operation(op="AddmmBackward0", phase="backward", module="head"))
    told = [" ".join(line.split()) for line in lines(given)]
    assert told[1:] == [
        "Where a call spends its time",
        "4.40 ms 55.0% linear din.py:41",
        "4.40 ms 55.0% backward: AddmmBackward0 head",
    ]


def test_memory_names_what_is_alive_at_the_peak() -> None:
    told = [" ".join(line.split()) for line in lines(profile(memory=MEMORY))]
    assert told[1] == "Memory at a call's peak: 8.0 MiB, beside 33.0 MiB that are there all the time"
    assert told[2] == "6.0 MiB 75.0% forward: linear din.py:41"


def test_only_so_many_are_told_and_nothing_drives_the_terminal() -> None:
    many = [operation(op=f"op{at}\x1b[1m") for at in range(30)]
    told = list(lines(profile(*many)))
    assert len(told) == 2 + MOST_OPERATIONS
    assert not any("\x1b" in line for line in told)


def test_no_profile_says_nothing() -> None:
    assert list(lines(None)) == list(lines(profile())) == []
