"""The processes below this one: orphans adopted, ended ones collected, all of them found and killed.

For the two supervisors, `shim.py` beside it and `workers/keeper.py`; `tree.py` looks at a child from outside. Standard
library only: both run as scripts under `-I -S`, where a file is imported by its own name and no package around it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Iterable

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
HIGHEST_FD = 65536
SWEEPS, FAST_SWEEPS, FAST_S, SLOW_S = 500, 20, 0.001, 0.02

_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """From now on a descendant whose parent ends becomes a child of this process, and cannot escape it."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent(number: int) -> None:
    """The kernel sends this process the signal when its parent ends."""
    _prctl(PR_SET_PDEATHSIG, number)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def close_all_but(kept: Iterable[int]) -> None:
    """Of the descriptors that a child was given: one that stays open here would outlive the child."""
    first = 3
    for fd in sorted(kept):
        os.closerange(first, fd)
        first = fd + 1
    os.closerange(first, HIGHEST_FD)


def waker() -> int:
    """A descriptor that becomes readable whenever a child ends or another handled signal comes."""
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return read


def reap(child: int) -> int | None:
    """Collects what has ended; the child's exit code as a shell says it, once it has ended too."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return 128 + signal.SIGKILL
        if pid == child:
            return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        if pid == 0:
            return None


def parent_of(pid: int) -> int | None:
    """None once the process has ended, collected or not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, parent = file.read().rpartition(b")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None  # it ended meanwhile
    return None if state in (b"Z", b"X") else int(parent)


def found() -> list[int]:
    """Those that live."""
    seen = {int(entry) for entry in os.listdir("/proc") if entry.isdigit()}
    parents = {pid: parent for pid in seen if (parent := parent_of(pid)) is not None}
    own, grown = {os.getpid()}, True
    while grown:
        new = {pid for pid, parent in parents.items() if parent in own} - own
        own |= new
        grown = bool(new)
    return sorted(own - {os.getpid()})


def kill(uid: int | None = None) -> None:
    """Stops all before it kills any, until none is left: something that forks outruns a single sweep.

    `uid` is one that nobody else has: `kill -1` as it is one stroke.
    """
    for sweep in range(SWEEPS):
        if uid is not None and os.fork() == 0:
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.kill(-1, signal.SIGKILL)
            os._exit(0)
        pids = found()
        for number in (signal.SIGSTOP, signal.SIGKILL) if sweep else (signal.SIGSTOP,):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(FAST_S if sweep < FAST_SWEEPS else SLOW_S)
