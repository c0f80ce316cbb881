"""Locks of a host's devices: one file each, held by `flock`, so that the end of a process frees them.

Exclusive for whatever measures, shared for what only looks (`inspect`). A whole run holds its lock from beginning to
end: it measures nearly all the time, and a neighbour that compiles would disturb it.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from optimizer.spec import Purpose

POLL_S = 0.2


class StoppedWaiting(Exception):
    """The device stayed taken until there was a reason to wait no longer."""


def shares_device(purpose: Purpose) -> bool:
    return purpose in (Purpose.INSPECT, Purpose.EXPLAIN, Purpose.DIAGNOSE)


@contextmanager
def device_lock(
    folder: Path,
    target: str,
    *,
    shared: bool,
    go_on: Callable[[], bool] = lambda: True,
    on_wait: Callable[[], None] = lambda: None,
) -> Iterator[int]:
    """The descriptor that holds the lock; a process that inherits it goes on holding it after the block.

    `on_wait` is called once when the device is taken. Raises StoppedWaiting when `go_on` says no, OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{re.sub(r'[^A-Za-z0-9]+', '-', target)}.lock"
    # others of the host may have made it: only the right to open it is needed
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        _take(fd, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, go_on, on_wait)
        yield fd
    finally:
        os.close(fd)


def _take(fd: int, kind: int, go_on: Callable[[], bool], on_wait: Callable[[], None]) -> None:
    told = False
    while True:
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if not told:
                told = True
                on_wait()
        if not go_on():
            raise StoppedWaiting
        time.sleep(POLL_S)
