"""Starts children whose operations are `payloads/child.py`, in each confinement that this machine offers."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from optimizer.sandbox.child import Child, ChildFailed, start
from optimizer.sandbox.choose import CONFINEMENTS, reason_against
from optimizer.sandbox.launch import Mode
from optimizer.sandbox.layout import project_packages
from optimizer.sandbox.spec import ChildSpec, Limits

PAYLOADS = Path(__file__).parent / "payloads"
MIB = 1 << 20


def entry(wire_fd: int, paths: Mapping[str, str]) -> list[str]:
    return [sys.executable, "-I", "-B", f"{paths['payloads']}/entry.py", str(wire_fd), *map(str, project_packages())]


def payload_child(mode: Mode, *, limits: Limits = Limits(), **inputs: Path) -> Child:
    spec = ChildSpec("payload", inputs={"payloads": PAYLOADS, **inputs}, limits=limits, trusted=mode == "trusted")
    return start(spec, mode=mode, command=entry)


def failure(child: Child, op: str, *, timeout_s: float = 30, **fields: object) -> ChildFailed:
    """The failure that a call ends with; there must be one."""
    with pytest.raises(ChildFailed) as caught:
        child.call(f"payload.{op}", timeout_s=timeout_s, **fields)
    return caught.value


def next_child_works(mode: Mode) -> None:
    with payload_child(mode) as child:
        assert child.call("payload.hello", timeout_s=30, name="you").fields["hello"] == "you"


def usable(mode: Mode) -> Mode:
    reason = reason_against(mode)
    if reason is not None:
        pytest.skip(f"{mode} is not offered here: {reason}")
    return mode


@pytest.fixture(params=CONFINEMENTS)
def mode(request: pytest.FixtureRequest) -> Mode:
    return usable(request.param)


def processes_of(child: Child) -> set[int]:
    return set(child._launched.tree.scan())


def alive(pids: set[int]) -> set[int]:
    return {pid for pid in pids if os.path.exists(f"/proc/{pid}")}


def wait_until(condition: object, timeout_s: float = 10) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.02)
    return False


def denied(found: Mapping[str, str]) -> Iterator[str]:
    """What was not denied."""
    return (f"{name}: {outcome}" for name, outcome in found.items() if outcome.startswith("done"))
