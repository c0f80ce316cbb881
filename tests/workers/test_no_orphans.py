"""`kill -9` of a process of a run leaves none of the others: worker, keeper, coordinator, children in sandboxes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from optimizer.sandbox.choose import CONFINEMENTS, reason_against
from tests.workers.fake_platform import Platform, alive, wait_until

ROOT = Path(__file__).parents[2]
COORDINATOR = Path(__file__).with_name("sandboxing_coordinator.py")
WORKER = """
import json, sys, pathlib
from workers.messages import RunMessage
from workers.settings import Settings
from workers.work import work
given = json.loads(sys.argv[1])
settings = Settings(
    redis_url="", api="", token="", name="victim", host="h", target="cpu", coordinator=tuple(given["coordinator"]),
    scratch=pathlib.Path(given["scratch"]), device_locks=pathlib.Path(given["scratch"]) / "devices",
)
work(RunMessage.model_validate(given["message"]), settings)
"""


def offered() -> list[str]:
    found = [mode for mode in CONFINEMENTS if reason_against(mode) is None]
    assert found, "this machine has no sandbox"
    return [*found, "trusted"]  # which is held together as Landlock's children are


@pytest.fixture
def run(platform: Callable[..., Platform], tmp_path: Path) -> Iterator[Callable[[str], dict[str, list[int]]]]:
    """Starts a worker on a run; the processes by their part in it."""
    started: list[subprocess.Popen[bytes]] = []
    tmp_path.chmod(0o711)

    def start(mode: str) -> dict[str, list[int]]:
        one = platform(model=mode.encode())
        given = {
            "message": one.message.wire(),
            "scratch": str(tmp_path / f"scratch-{mode}"),
            "coordinator": [sys.executable, str(COORDINATOR)],
        }
        worker = subprocess.Popen([sys.executable, "-c", WORKER, json.dumps(given)], cwd=ROOT)
        started.append(worker)
        one.wait_for(lambda: any("child is up" in message for message in one.messages()))
        (message,) = [message for message in one.messages() if "child is up" in message]
        keeper, *rest = [process.pid for process in psutil.Process(worker.pid).children(recursive=True)]
        coordinator = int(message.split()[-1])
        children = [pid for pid in rest if pid != coordinator]
        assert coordinator in rest and children
        return {"worker": [worker.pid], "keeper": [keeper], "coordinator": [coordinator], "children": children}

    yield start
    for worker in started:
        worker.kill()
        worker.wait()


@pytest.mark.parametrize("victim", ["worker", "keeper", "coordinator"])
def test_a_kill_leaves_no_process_of_the_run(run: Callable[[str], dict[str, list[int]]], victim: str) -> None:
    for mode in offered():
        processes = run(mode)
        of_the_run = [pid for part in ("keeper", "coordinator", "children") for pid in processes[part]]
        assert all(alive(pid) for pid in of_the_run)
        psutil.Process(processes[victim][0]).kill()
        wait_until(lambda pids=of_the_run: not any(alive(pid) for pid in pids))  # type: ignore[misc]
