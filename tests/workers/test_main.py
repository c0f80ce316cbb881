"""`python -m workers` where it cannot work: it says why and what to do, and does not start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def start(tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "REDIS_URL": "redis://127.0.0.1:9/0",
        "FUSEWORKS_WORKER_API_URL": "http://127.0.0.1:9",
        "FUSEWORKS_WORKER_TOKEN": "worker-token-for-tests",
        "FUSEWORKS_WORKER_SCRATCH": str(tmp_path / "scratch"),
        **environment,
    }
    command = [sys.executable, "-m", "workers"]
    return subprocess.run(command, cwd=tmp_path, env=given, capture_output=True, text=True, timeout=120)


def test_a_setting_that_is_missing_is_named(tmp_path: Path) -> None:
    answer = start(tmp_path, REDIS_URL="")
    assert answer.returncode == 64
    assert "REDIS_URL" in answer.stderr and "Traceback" not in answer.stderr


def test_an_optimizer_that_does_not_work_ends_it(tmp_path: Path) -> None:
    answer = start(tmp_path, FUSEWORKS_COORDINATOR=f"{sys.executable} -c 'exit(\"torch is broken\")'")
    assert answer.returncode == 3
    assert "cannot work" in answer.stderr and "torch is broken" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_scratch_that_cannot_be_made_ends_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    answer = start(tmp_path, FUSEWORKS_WORKER_SCRATCH=str(tmp_path / "file" / "scratch"))
    assert answer.returncode == 3
    assert str(tmp_path / "file") in answer.stderr and "Traceback" not in answer.stderr
