"""Folders of attempts: private, removed at the end, and swept when a worker was killed; never while in use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workers.scratch import NotOurs, scratch_folder, sweep

HOLD = """
import sys, pathlib
from workers.scratch import scratch_folder
with scratch_folder(pathlib.Path(sys.argv[1])) as folder:
    (folder / "model").mkdir()
    print(folder, flush=True)
    sys.stdin.read()
"""
ROOT = Path(__file__).parents[2]


def test_others_may_pass_through_and_not_look_into_it(tmp_path: Path) -> None:
    with scratch_folder(tmp_path / "root") as folder:
        assert folder.stat().st_mode & 0o777 == 0o711
        assert folder.parent.stat().st_mode & 0o777 == 0o711


def test_it_is_removed_with_all_that_is_in_it(tmp_path: Path) -> None:
    with scratch_folder(tmp_path) as folder:
        (folder / "a" / "b").mkdir(parents=True)
        (folder / "a" / "b" / "file").write_text("x")
        (folder / "a").chmod(0)
    assert not folder.exists()


def test_it_is_removed_when_the_work_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), scratch_folder(tmp_path) as folder:
        raise ZeroDivisionError
    assert not folder.exists()


def test_a_sweep_takes_what_a_killed_worker_left_and_nothing_that_is_in_use(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        left = Path(other.stdout.readline().strip())
        with scratch_folder(tmp_path) as own:
            assert sweep(tmp_path) == 0
            assert own.exists() and left.exists()
            other.kill()
            other.wait()
            assert sweep(tmp_path) == 1
            assert own.exists() and not left.exists()


def test_a_sweep_leaves_everything_else_alone(tmp_path: Path) -> None:
    (tmp_path / "noise-floor-1.json").write_text("{}")
    (tmp_path / "devices").mkdir()
    assert sweep(tmp_path) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"noise-floor-1.json", "devices", ".gate"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "theirs"
    root.mkdir()
    os.chown(root, 12345, 12345)
    with pytest.raises(NotOurs, match="FUSEWORKS_WORKER_SCRATCH"), scratch_folder(root):
        pass


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(NotOurs), scratch_folder(tmp_path / "link"):
        pass
