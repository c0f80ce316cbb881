"""One measures, or several look: by file locks, so that the end of a process frees a device."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from optimizer.spec import Purpose
from workers.device_locks import StoppedWaiting, device_lock, shares_device

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def is_free(folder: Path, target: str = "cpu", *, shared: bool = False) -> bool:
    try:
        with device_lock(folder, target, shared=shared, go_on=lambda: False):
            return True
    except StoppedWaiting:
        return False


def test_only_what_measures_nothing_shares_its_device() -> None:
    assert {purpose: shares_device(purpose) for purpose in Purpose} == {
        Purpose.INSPECT: True,
        Purpose.OPTIMIZE: False,
        Purpose.REPLAY: False,
        Purpose.COMPARE: False,
        Purpose.EXPLAIN: True,
        Purpose.DIAGNOSE: True,
    }


def test_who_measures_is_alone(tmp_path: Path) -> None:
    with device_lock(tmp_path, "cpu", shared=False):
        assert not is_free(tmp_path, shared=False)
        assert not is_free(tmp_path, shared=True)
    assert is_free(tmp_path, shared=False)


def test_those_who_look_share_it_and_nobody_measures_meanwhile(tmp_path: Path) -> None:
    with device_lock(tmp_path, "cpu", shared=True):
        assert is_free(tmp_path, shared=True)
        assert not is_free(tmp_path, shared=False)


def test_each_target_has_a_lock_of_its_own_within_the_folder(tmp_path: Path) -> None:
    with device_lock(tmp_path / "new", "cuda:sm_90", shared=False):
        assert is_free(tmp_path / "new", "cpu")
        assert not is_free(tmp_path / "new", "cuda:sm_90")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["cpu.lock", "cuda-sm-90.lock"]


def test_who_waits_is_told_once_and_gets_it_when_it_is_free(tmp_path: Path) -> None:
    told: list[str] = []
    first = device_lock(tmp_path, "cpu", shared=False)
    first.__enter__()
    timer = threading.Timer(0.7, lambda: first.__exit__(None, None, None))
    timer.start()
    with device_lock(tmp_path, "cpu", shared=False, on_wait=lambda: told.append("waiting")):
        assert told == ["waiting"]
    timer.join()


def test_it_stays_taken_while_a_process_that_inherited_it_lives_and_is_free_after_a_kill(tmp_path: Path) -> None:
    with device_lock(tmp_path, "cpu", shared=False) as fd:
        child = subprocess.Popen(
            [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"], pass_fds=[fd], stdin=subprocess.PIPE
        )
    assert not is_free(tmp_path)
    child.kill()
    child.communicate()
    assert is_free(tmp_path)


def test_a_killed_holder_frees_it(tmp_path: Path) -> None:
    command = [sys.executable, "-S", "-c", HOLD, str(tmp_path / "cpu.lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        assert not is_free(tmp_path)
        holder.kill()
    assert is_free(tmp_path)


def test_a_link_in_place_of_a_lock_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cpu.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError), device_lock(tmp_path, "cpu", shared=True):
        pass
    assert not (tmp_path / "elsewhere").exists()
