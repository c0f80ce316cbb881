"""Starts children whose operations are `payloads/`, in each confinement that this machine offers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from optimizer.sandbox.child import Child, ChildFailed, start
from optimizer.sandbox.choose import CONFINEMENTS, reason_against
from optimizer.sandbox.launch import Mode
from optimizer.sandbox.layout import project_packages
from optimizer.sandbox.spec import ChildSpec, Limits

PAYLOADS = Path(__file__).parent / "payloads"
MIB = 1 << 20
ROOMY = Limits(memory_bytes=2 << 30)


def entry(wire_fd: int, paths: Mapping[str, str]) -> list[str]:
    return [sys.executable, "-I", "-B", f"{paths['payloads']}/entry.py", str(wire_fd), *map(str, project_packages())]


def payload_child(mode: Mode, limits: Limits = ROOMY, inputs: Mapping[str, Path] | None = None) -> Child:
    given = {"payloads": PAYLOADS, **(inputs or {})}
    spec = ChildSpec("payload", inputs=given, limits=limits, trusted=mode == "trusted")
    return start(spec, mode=mode, command=entry)


def failure(
    child: Child, op: str, *, timeout_s: float = 60, collect: Path | None = None, **fields: object
) -> ChildFailed:
    """The failure that a call ends with; there must be one."""
    with pytest.raises(ChildFailed) as caught:
        child.call(f"payload.{op}", timeout_s=timeout_s, collect=collect, **fields)
    return caught.value


def next_child_works(mode: Mode) -> None:
    with payload_child(mode) as child:
        assert child.call("payload.hello", timeout_s=60, name="you").fields["hello"] == "you"


AS_ANOTHER = "run as another user by test_as_another_user.py"  # so CI may skip it here (tests/no_skips.py)


def offered() -> list[Mode]:
    return [mode for mode in CONFINEMENTS if reason_against(mode) is None]


def usable(mode: Mode) -> Mode:
    reason = reason_against(mode)
    if reason is not None and os.geteuid() == 0 and "is closed to the uid" in reason:
        pytest.skip(f"{AS_ANOTHER}: {reason}")
    if reason is not None:
        pytest.skip(f"{mode} is not offered here: {reason}")
    return mode


@contextmanager
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """A process of this user that a payload is told to attack."""
    process = subprocess.Popen(["sleep", "600"])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def processes_of(child: Child) -> set[int]:
    """All of the child's processes, the launcher's own among them."""
    launched = child._launched
    return {*launched.tree.scan(), launched.process.pid}


def alive(pids: set[int]) -> set[int]:
    return {pid for pid in pids if os.path.exists(f"/proc/{pid}")}


def wait_until(condition: Callable[[], bool], timeout_s: float = 20) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def not_denied(found: Mapping[str, str], but: tuple[str, ...] = ()) -> list[str]:
    return [f"{name}: {outcome}" for name, outcome in found.items() if outcome.startswith("done") and name not in but]
