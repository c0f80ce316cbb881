"""Nothing of a run outlives its right to work: the keeper with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.workers.fake_platform import alive, wait_until
from workers import keeper

# A coordinator whose child sits in a session of its own and whose grandchild lost its parent
PROGRAM = """
import os, signal, sys, time
if "deaf" in sys.argv: signal.signal(signal.SIGTERM, signal.SIG_IGN)
def note(): open(sys.argv[1], "a").write(f"{os.getpid()}\\n")
note()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        note()
        time.sleep(600)
    note()
    os._exit(0) if "orphan" in sys.argv else time.sleep(600)
time.sleep(float(sys.argv[2]))
sys.exit(7)
"""


@dataclass
class Kept:
    process: subprocess.Popen[bytes]
    lifeline: int
    file: Path

    def pids(self, count: int = 3) -> list[int]:
        wait_until(lambda: self.file.exists() and len(self.file.read_text().split()) == count)
        return [int(line) for line in self.file.read_text().split()]


@pytest.fixture
def keep(tmp_path: Path) -> Iterator[object]:
    started: list[Kept] = []

    def start(*words: str, seconds: float = 600, lease_s: float = 600) -> Kept:
        read, write = os.pipe()
        file = tmp_path / f"pids{len(started)}"
        command = [sys.executable, "-I", "-S", keeper.__file__, str(read), "-1", str(lease_s)]
        command += [sys.executable, "-I", "-S", "-c", PROGRAM, str(file), str(seconds), *words]
        process = subprocess.Popen(command, pass_fds=[read], start_new_session=True)
        os.close(read)
        started.append(Kept(process, write, file))
        return started[-1]

    yield start
    for kept in started:
        kept.process.kill()
        kept.process.wait()


def none_lives(pids: list[int]) -> bool:
    return not any(alive(pid) for pid in pids)


def test_the_exit_code_is_the_coordinators_and_its_children_end_with_it(keep) -> None:  # type: ignore[no-untyped-def]
    kept = keep(seconds=0.3)
    pids = kept.pids()
    assert kept.process.wait(20) == 7
    assert none_lives(pids)


def test_a_closed_lifeline_ends_all_at_once_even_those_without_a_parent(keep) -> None:  # type: ignore[no-untyped-def]
    kept = keep("deaf", "orphan")
    pids = kept.pids()
    os.close(kept.lifeline)
    assert kept.process.wait(20) == 128 + signal.SIGKILL
    assert none_lives(pids)


def test_asked_to_end_the_coordinator_may_do_so_itself(keep) -> None:  # type: ignore[no-untyped-def]
    kept = keep()
    pids = kept.pids()
    os.write(kept.lifeline, keeper.TERMINATE)
    assert kept.process.wait(20) == 128 + signal.SIGTERM
    assert none_lives(pids)


def test_a_lease_that_is_not_renewed_ends_all(keep) -> None:  # type: ignore[no-untyped-def]
    kept = keep(lease_s=0.4)
    pids = kept.pids()
    assert kept.process.wait(20) == keeper.LEASE_RAN_OUT
    assert none_lives(pids)


def test_a_lease_that_is_renewed_lets_it_go_on(keep) -> None:  # type: ignore[no-untyped-def]
    kept = keep(seconds=1.5, lease_s=0.8)
    kept.pids()
    for _ in range(30):
        if kept.process.poll() is not None:
            break
        os.write(kept.lifeline, b".")
        time.sleep(0.1)
    assert kept.process.wait(20) == 7


def test_the_coordinator_ends_with_a_keeper_that_is_killed(keep) -> None:  # type: ignore[no-untyped-def]
    kept = keep()
    coordinator = kept.pids()[0]
    kept.process.kill()
    wait_until(lambda: not alive(coordinator))
    for pid in kept.pids()[1:]:  # of this stand-in; a sandbox ends with its coordinator
        os.kill(pid, signal.SIGKILL)


def test_processes_that_are_stopped_end_too(keep) -> None:  # type: ignore[no-untyped-def]
    kept = keep()
    pids = kept.pids()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    os.close(kept.lifeline)
    kept.process.wait(20)
    assert none_lives(pids)
