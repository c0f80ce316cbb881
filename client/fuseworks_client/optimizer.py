"""How the optimizer is started: `python -m optimizer` of the same Python, in a session of its own.

FUSEWORKS_OPTIMIZER replaces the command (`"/path/python -m optimizer"`): to use another installation, and in tests.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence

from fuseworks_client import exits

POLITE_S = 15.0


def command(*arguments: str) -> list[str]:
    override = os.environ.get("FUSEWORKS_OPTIMIZER")
    base = shlex.split(override) if override else [sys.executable, "-m", "optimizer"]
    return [*base, *arguments]


def pass_through(*arguments: str) -> int:
    """Runs a verb of the optimizer that prints its own answer."""
    code = subprocess.run(command(*arguments)).returncode
    return code if code in (exits.DONE, exits.USER, exits.USAGE) else exits.OURS


def start(arguments: Sequence[str], *, log: int, inherited: int) -> subprocess.Popen[bytes]:
    """In a session of its own, so that Ctrl-C reaches the client alone, and it decides what happens."""
    return subprocess.Popen(
        command(*arguments),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=[inherited],
        start_new_session=True,
    )


def stop(process: subprocess.Popen[bytes]) -> None:
    """Politely first (it kills its children and writes what it has), then the whole session."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            process.wait(POLITE_S)
    with contextlib.suppress(ProcessLookupError):  # nothing of the session may be left
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
