"""Keeps one coordinator: `python -I -S keeper.py LIFELINE_FD LOCK_FD LEASE_S COMMAND...`.

Between worker and coordinator, so that nothing of a run outlives its right to work:
- the worker ends or closes the lifeline: every process of the run is killed;
- no byte comes over the lifeline for LEASE_S (a frozen worker): the same, and the exit code says so;
- the byte `t`: the coordinator is asked to end; the worker decides how long it may take.
Orphans of the coordinator become children of this process, so none escapes. The device's lock (LOCK_FD, or -1) is held
here alone: it is free when all processes are gone, and not before. Killed itself, the kernel kills the coordinator, and
each sandbox ends with its coordinator. Standard library only, and the sandbox's file of that kind.
"""

import contextlib
import os
import select
import signal
import sys
import time

if __name__ == "__main__":  # under -I -S no package of ours can be imported, only a file by its own name
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "optimizer", "sandbox"))
    import descendants
else:
    from optimizer.sandbox import descendants

TERMINATE = b"t"
LEASE_RAN_OUT = 75
NOT_STARTED = 127


def start(command: list[str], private_fds: list[int]) -> int:
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        for fd in private_fds:
            os.close(fd)
        descendants.end_with_parent(signal.SIGKILL)
        if os.getppid() == parent:  # else it died before this could notice
            os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]} did not start: {error}\n".encode())
    os._exit(NOT_STARTED)


def watch(child: int, lifeline: int, lease_s: float) -> int:
    """The exit code of the child, or why it must be killed."""
    waker = descendants.waker()
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    poll.register(waker, select.POLLIN)
    deadline = time.monotonic() + lease_s
    while True:
        code = descendants.reap(child)
        if code is not None:
            return code
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


def main(arguments: list[str]) -> int:
    lifeline, lock, lease_s = int(arguments[0]), int(arguments[1]), float(arguments[2])
    kept = [fd for fd in (lifeline, lock) if fd >= 0]
    descendants.adopt_orphans()
    child = start(arguments[3:], kept)
    descendants.close_all_but(kept)  # the coordinator's end of the events closes with the coordinator, not with this
    code = watch(child, lifeline, lease_s)
    descendants.kill()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
