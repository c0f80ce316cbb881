"""Keeps one coordinator: `python -I -S keeper.py LIFELINE_FD LOCK_FD LEASE_S COMMAND...`. Standard library only.

Between worker and coordinator, so that nothing of a run outlives its right to work:
- the worker ends or closes the lifeline: every process of the run is killed;
- no byte comes over the lifeline for LEASE_S (a frozen worker): the same, and the exit code says so;
- the byte `t`: the coordinator is asked to end; the worker decides how long it may take.
Orphans of the coordinator become children of this process, so none escapes. The device's lock (LOCK_FD, or -1) is held
here alone: it is free when all processes are gone, and not before. Killed itself, the kernel kills the coordinator, and
each sandbox ends with its coordinator.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
TERMINATE = b"t"
LEASE_RAN_OUT = 75
NOT_STARTED = 127
SWEEPS, PAUSE_S = 2000, 0.005
HIGHEST_FD = 65536


def prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def start(command: list[str], private_fds: list[int]) -> int:
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        for fd in private_fds:
            os.close(fd)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:  # else it died before this could notice
            os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]} did not start: {error}\n".encode())
    os._exit(NOT_STARTED)


def close_all_but(kept: list[int]) -> None:
    """The coordinator's end of the events must close with the coordinator, and not with this process."""
    first = 3
    for fd in sorted(kept):
        os.closerange(first, fd)
        first = fd + 1
    os.closerange(first, HIGHEST_FD)


def watch(child: int, lifeline: int, lease_s: float, waker: int) -> int:
    """The exit status of the child, or why it must be killed."""
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    poll.register(waker, select.POLLIN)
    deadline = time.monotonic() + lease_s
    while True:
        status = reap(child)
        if status is not None:
            return status
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return LEASE_RAN_OUT
        ready = {fd for fd, _ in poll.poll(left_s * 1000)}
        if waker in ready:
            os.read(waker, 4096)
        if lifeline in ready:
            word = os.read(lifeline, 4096)
            if not word:
                return 128 + signal.SIGKILL
            deadline = time.monotonic() + lease_s
            if TERMINATE in word:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGTERM)


def reap(child: int) -> int | None:
    """Collects ended orphans; the child's exit status as a shell would say it, once it has ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return NOT_STARTED
        if pid == child:
            return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        if pid == 0:
            return None


def descendants() -> list[int]:
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue  # it ended meanwhile
            if state not in (b"Z", b"X"):
                parents[int(entry)] = int(parent)
    own, grown = {os.getpid()}, True
    while grown:
        new = {pid for pid, parent in parents.items() if parent in own} - own
        own |= new
        grown = bool(new)
    return sorted(own - {os.getpid()})


def kill_descendants() -> None:
    """Stops all before it kills any, until none is left: something that forks outruns a single sweep."""
    for sweep in range(SWEEPS):
        found = descendants()
        for number in (signal.SIGSTOP, signal.SIGKILL) if sweep else (signal.SIGSTOP,):
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(PAUSE_S)


def main(arguments: list[str]) -> int:
    lifeline, lock, lease_s = int(arguments[0]), int(arguments[1]), float(arguments[2])
    kept = [fd for fd in (lifeline, lock) if fd >= 0]
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    child = start(arguments[3:], kept)
    waker, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    close_all_but([*kept, waker, wake])
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    code = watch(child, lifeline, lease_s, waker)
    kill_descendants()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
