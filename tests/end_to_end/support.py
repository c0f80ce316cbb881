"""Runs the real command line in a process of its own, on the real optimizer and sandbox."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
OTHER_DIN = ROOT / "tests" / "models" / "other_din.py"


def fuseworks(*arguments: object, timeout_s: float = 500.0) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "client")])
    return subprocess.run(
        [sys.executable, "-m", "fuseworks_client", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env={**os.environ, "PYTHONPATH": path},
    )


def answer(done: subprocess.CompletedProcess[str], code: int = 0) -> dict[str, Any]:
    """The JSON document of a run with `--json`, once its exit code is as expected."""
    assert done.returncode == code, done.stderr[-4000:]
    document: dict[str, Any] = json.loads(done.stdout)
    return document
