"""The operation of a child that tries a package as its user will (`run.py --self-test`), in a process of its own.

The package holds code that was compiled from the user's model, so this too runs inside the sandbox.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from optimizer.children.session import Session

TOLD_CHARS = 2000
Answer = tuple[dict[str, Any], list[np.ndarray]]


def self_test(session: Session, request: dict[str, Any], arrays: list[np.ndarray]) -> Answer:
    """{package, command, limit_s} → {exit_code, told}: what it printed last; the code is null when it did not end.
    `command`: a script of the package and its arguments."""
    script, *arguments = [str(word) for word in request["command"]]
    command = [sys.executable, str(Path(request["package"]) / Path(script).name), *arguments]
    try:
        done = subprocess.run(
            command,
            cwd=session.scratch,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=float(request["limit_s"]),
        )
    except subprocess.TimeoutExpired:
        return {"exit_code": None, "told": f"it did not end within {request['limit_s']:g} s"}, []
    return {"exit_code": done.returncode, "told": (done.stderr.strip() or done.stdout.strip())[-TOLD_CHARS:]}, []


OPERATIONS = {"self_test": self_test}
