"""Starting a server so that it never outlives whoever started it, and waiting until it answers."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import psutil

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
# The kernel's "nobody": servers that refuse to be root run as this, and own their folders.
UNPRIVILEGED = 65534
POLL_S = 0.05


class ServerFailed(RuntimeError):
    """A server of the embedded installation did not come up; the text has the end of its log."""


def spawn(
    command: Sequence[str | Path],
    *,
    log: Path,
    environment: Mapping[str, str] | None = None,
    end_signal: signal.Signals = signal.SIGTERM,
    drop_root: bool = False,
    cwd: Path | None = None,
) -> subprocess.Popen[bytes]:
    """A child in a session of its own (Ctrl-C reaches only the supervisor), signalled by the kernel when we die."""
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
    parent = os.getpid()

    def before_exec() -> None:  # after the uid was changed: changing it clears the death signal
        if libc is not None:
            libc.prctl(PR_SET_PDEATHSIG, int(end_signal))
            if os.getppid() != parent:
                os.kill(os.getpid(), signal.SIGKILL)

    unprivileged = UNPRIVILEGED if drop_root and os.geteuid() == 0 else None
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab", opener=_private) as out:
        return subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=dict(environment) if environment is not None else None,
            cwd=cwd,
            start_new_session=True,
            preexec_fn=before_exec,
            user=unprivileged,
            group=unprivileged,
            extra_groups=None if unprivileged is None else [],
        )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def await_ready(
    name: str, process: subprocess.Popen[bytes], ready: Callable[[], bool], *, log: Path, timeout_s: float
) -> None:
    """Raises ServerFailed when it ends or does not answer in time."""
    deadline = time.monotonic() + timeout_s
    while not ready():
        if process.poll() is not None:
            raise ServerFailed(f"{name} ended with code {process.returncode}:\n{tail(log)}")
        if time.monotonic() > deadline:
            raise ServerFailed(f"{name} did not answer within {timeout_s:.0f} s:\n{tail(log)}")
        time.sleep(POLL_S)


def end(process: subprocess.Popen[bytes], *, by: signal.Signals = signal.SIGTERM, timeout_s: float = 20.0) -> None:
    """Asks, waits, then kills."""
    if process.poll() is None:
        process.send_signal(by)
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def adopt_orphans() -> None:
    """From now on the processes of a child that dies become children of this one (on Linux), for `end_orphans`."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_orphans(kept: Collection[int], *, patience_s: float = 10.0, timeout_s: float = 30.0) -> list[int]:
    """Waits until only the `kept` children of this process are left, and kills after `patience_s`; who is left then.

    A run's keeper ends by itself when its worker dies. The children of an orphan that ends are orphans in turn.
    """
    began = time.monotonic()
    while orphans := [child.pid for child in psutil.Process().children() if child.pid not in kept]:
        waited_s = time.monotonic() - began
        if waited_s > timeout_s:
            return orphans
        for pid in orphans:
            if waited_s > patience_s:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(POLL_S)
    return []


def tail(log: Path, characters: int = 2000) -> str:
    try:
        return log.read_text(errors="replace")[-characters:]
    except OSError:
        return "(no log)"


def owned_folder(folder: Path, *, drop_root: bool) -> Path:
    """A folder that only the server's user may enter (and root)."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    if drop_root and os.geteuid() == 0:
        os.chown(folder, UNPRIVILEGED, UNPRIVILEGED)
    return folder
