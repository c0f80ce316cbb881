"""The whole platform as one command: it starts, tells of a dead child at once, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fuseworks.embedded.valkey import free_port

ROOT = Path(__file__).parents[2]
READY = "Ctrl-C ends everything."


class Platform:
    """`python -m fuseworks.embedded` in a folder and on a port of its own."""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.folder = folder
        self.port = port or free_port()
        self.said: list[str] = []
        environment = {k: v for k, v in os.environ.items() if k not in {"DATABASE_URL", "REDIS_URL"}}
        environment["PYTHONPATH"] = os.pathsep.join(str(ROOT / part) for part in (".", "platform", "client"))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fuseworks.embedded", "--port", str(self.port), "--state", str(folder)],
            env=environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def until(self, words: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            if words in line:
                return line
        raise AssertionError(f"it ended without saying {words!r}: {''.join(self.said)}")

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def child(self, words: str) -> psutil.Process:
        found = [p for p in psutil.Process(self.process.pid).children() if words in " ".join(p.cmdline())]
        assert len(found) == 1, found
        return found[0]


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fuseworks-tests-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.fixture
def platform(folder: Path) -> Iterator[Platform]:
    running = Platform(folder)
    try:
        running.until(READY)
        yield running
    finally:
        running.process.kill()
        running.process.wait()


def ended(family: list[psutil.Process]) -> list[psutil.Process]:
    """Those that still live after a while."""
    return psutil.wait_procs(family, timeout=40)[1]


def test_it_starts_answers_and_ends_with_all_its_children(platform: Platform):
    with urllib.request.urlopen(f"http://127.0.0.1:{platform.port}/health/?format=json") as answer:
        assert json.load(answer)["status"] == "ok"
    said = "".join(platform.said)
    assert "ads-ranking-member@example.com" in said and "search-ranking-owner@example.com" in said
    family = platform.family()
    assert len(family) >= 5
    platform.process.send_signal(signal.SIGTERM)
    assert platform.process.wait(60) == 0
    assert ended(family) == []


@pytest.mark.parametrize("name", ["uvicorn", "dispatch", "workers", "valkey"])
def test_a_dead_child_is_told_at_once_and_all_end(platform: Platform, name: str):
    family = platform.family()
    platform.child(name).kill()
    line = platform.until("ended with code -9")
    assert "ending all" in line
    assert platform.process.wait(60) == 3
    assert ended(family) == []


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's signal on a parent's death is Linux's")
def test_nothing_is_orphaned_when_the_supervisor_itself_is_killed(platform: Platform):
    family = platform.family()
    platform.process.kill()
    platform.process.wait()
    assert ended(family) == []


def test_a_port_that_is_taken_is_told_before_anything_starts(folder: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused = Platform(folder, port=taken.getsockname()[1])
        assert "PORT=" in refused.until("is taken")
        assert refused.process.wait(30) == 3
    assert not (folder / "postgres").exists()


def test_a_second_start_in_the_same_folder_is_refused(platform: Platform):
    second = Platform(platform.folder)
    line = second.until("already running")
    assert "--state" in line
    assert second.process.wait(30) == 3
    assert platform.process.poll() is None


def test_the_sample_people_are_made_once_and_only_their_owner_reads_the_passwords(platform: Platform):
    file = platform.folder / "sign-in.json"
    assert file.stat().st_mode & 0o777 == 0o600
    before = file.read_text()
    assert len(json.loads(before)["people"]) == 8
    platform.process.send_signal(signal.SIGINT)
    assert platform.process.wait(60) == 0
    again = Platform(platform.folder)
    try:
        again.until(READY)
        assert file.read_text() == before
    finally:
        again.process.send_signal(signal.SIGTERM)
        again.process.wait(60)
