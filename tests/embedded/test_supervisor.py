"""The whole platform as one command: it starts, tells of a dead child at once, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from fuseworks.embedded.supervisor import Supervisor
from fuseworks.embedded.valkey import free_port

ROOT = Path(__file__).parents[2]
READY = "Ctrl-C ends everything."


class Platform:
    """`python -m fuseworks.embedded` in a folder and on a port of its own."""

    def __init__(self, folder: Path, port: int | None = None, *words: str) -> None:
        self.folder = folder
        self.port = port or free_port()
        self.said: list[str] = []
        environment = {k: v for k, v in os.environ.items() if k not in {"DATABASE_URL", "REDIS_URL"}}
        environment["PYTHONPATH"] = os.pathsep.join(str(ROOT / part) for part in (".", "platform", "client"))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fuseworks.embedded", "--port", str(self.port), "--state", str(folder), *words],
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

    def children(self) -> set[int]:
        return {process.pid for process in psutil.Process(self.process.pid).children()}

    def child(self, words: str) -> psutil.Process:
        found = [p for p in psutil.Process(self.process.pid).children() if words in " ".join(p.cmdline())]
        assert len(found) == 1, found
        return found[0]

    def successor(self, words: str, dead: psutil.Process) -> psutil.Process:
        """The child that was started in the place of the dead one."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            for process in psutil.Process(self.process.pid).children():
                with contextlib.suppress(psutil.Error):
                    if process.pid != dead.pid and words in " ".join(process.cmdline()):
                        return process
            time.sleep(0.05)
        raise AssertionError(f"no {words} was started again")


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


@pytest.mark.parametrize("name", ["uvicorn", "valkey", "postgres"])
def test_without_site_or_database_all_end_at_once(platform: Platform, name: str):
    family = platform.family()
    platform.child(name).kill()
    line = platform.until("ended with code -9")
    assert "ending all" in line
    assert platform.process.wait(60) == 3
    assert ended(family) == []


@pytest.mark.parametrize(("name", "called"), [("workers", "The worker 1"), ("dispatch", "The dispatcher")])
def test_a_dead_one_is_told_and_started_again_three_times_and_then_all_end(platform: Platform, name: str, called: str):
    family = platform.family()
    victim = platform.child(name)
    others = platform.children() - {victim.pid}
    assert len(others) == 4
    for number in (1, 2, 3):
        victim.kill()
        line = platform.until("ended with code -9")
        assert line.startswith(f"==> {called} ended with code -9; it is started again")
        assert f"({number} of at most 3 times within 5 minutes)" in line
        victim = platform.successor(name, victim)
        family.append(victim)
        assert platform.process.poll() is None
        assert platform.children() == others | {victim.pid}
    victim.kill()
    assert f"{called} ended with code -9 (4 times within 5 minutes); ending all" in platform.until("ending all")
    assert platform.process.wait(60) == 3
    assert ended(family) == []


ORPHAN = """
import subprocess, sys
import psutil
from fuseworks.embedded.children import adopt_orphans, end_orphans
adopt_orphans()
kept = subprocess.Popen(["sleep", "1000"])
left = f"sleep {sys.argv[1]} >/dev/null & echo $!; kill -9 $$"
dead = subprocess.run(["sh", "-c", left], stdout=subprocess.PIPE, text=True)
orphan = int(dead.stdout)
print(dead.returncode, psutil.pid_exists(orphan), end="; ")
print(end_orphans({kept.pid}, patience_s=float(sys.argv[2])), psutil.pid_exists(orphan), kept.poll())
kept.kill()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux only")
@pytest.mark.parametrize(("lives_s", "patience_s"), [("0.5", "60"), ("1000", "0.2")], ids=["waited for", "killed"])
def test_what_a_dead_child_left_is_gone_before_the_next_one_starts(lives_s: str, patience_s: str):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "platform")])}
    command = [sys.executable, "-c", ORPHAN, lives_s, patience_s]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.stdout == "-9 True; [] False None\n"


@pytest.mark.parametrize("after_s", [0.0, 0.3])
def test_ctrl_c_while_a_worker_is_started_again_ends_all(platform: Platform, after_s: float):
    family = platform.family()
    victim = platform.child("workers")
    victim.kill()
    platform.until("it is started again")
    time.sleep(after_s)
    with contextlib.suppress(psutil.Error):
        family += [process for process in platform.family() if process not in family]
    platform.process.send_signal(signal.SIGINT)
    assert platform.process.wait(60) == 0
    assert ended(family) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_python_swallows_during_a_fork_ends_all_at_the_next_look(
    folder: Path, monkeypatch: pytest.MonkeyPatch, number: int
):
    handlers: dict[int, Callable[[int, None], None]] = {}
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    supervisor = Supervisor(
        SimpleNamespace(hold=lambda: None, postgres=None, valkey=None, prepare=swallowing(handlers, number))
    )  # type: ignore[arg-type]
    monkeypatch.setattr(supervisor, "_start_web", lambda: None)
    monkeypatch.setattr(supervisor, "_spawn", lambda *_, **__: None)
    monkeypatch.setattr("fuseworks.embedded.supervisor.adopt_orphans", lambda: None)
    supervisor.installation.workers = 0
    supervisor.installation.environment = dict  # type: ignore[method-assign, assignment]
    with pytest.raises(KeyboardInterrupt):
        supervisor.start()


def swallowing(handlers: dict[int, Callable[[int, None], None]], number: int) -> Callable[[], None]:
    """A step of the start during which the signal comes, and what its handler raises is lost."""

    def step() -> None:
        with contextlib.suppress(KeyboardInterrupt):
            handlers[number](number, None)

    return step


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
