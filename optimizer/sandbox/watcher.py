"""Watches one child from a thread: its log, its memory, its scratch. The first limit that is passed ends the child.

RLIMIT_DATA bounds the private memory of one process; many processes, shared mappings and tmpfs need this look from
outside. It looks again by the time that filling what is left would take, so that a small limit is watched closely.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable

from optimizer.sandbox.spec import Limits
from optimizer.sandbox.tree import Tree
from optimizer.sandbox.usage import Usage

FILLING_BYTES_PER_S = 4 << 30
SHORTEST_S, LONGEST_S = 0.02, 0.25
FULL_BELOW_BYTES = 64 << 10


class Watcher:
    """`verdict` is the id of the error that ended the child, once there is one."""

    def __init__(
        self, *, log_fd: int, limits: Limits, tree: Tree, usage: Callable[[], Usage], end: Callable[[], None]
    ) -> None:
        self.verdict: str | None = None
        self.log = bytearray()
        self._log_fd, self._limits, self._tree, self._usage, self._end = log_fd, limits, tree, usage, end
        self._log_open = True
        self._stop_read, self._stop_write = os.pipe()
        self._thread = threading.Thread(target=self._run, name="child-watcher", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._log_fd, select.POLLIN)
        poll.register(self._stop_read, select.POLLIN)
        next_look, pause_s = time.monotonic(), SHORTEST_S
        while True:
            ready = poll.poll(max(0.0, next_look - time.monotonic()) * 1000)
            fds = {fd for fd, _ in ready}
            if self._log_fd in fds and not self._drain():
                poll.unregister(self._log_fd)
            if self._stop_read in fds:
                return
            if time.monotonic() >= next_look:
                pause_s = self._look(pause_s)
                next_look = time.monotonic() + pause_s

    def _drain(self) -> bool:
        """One read of the log. False once nobody can write to it any more."""
        data = os.read(self._log_fd, 1 << 16)
        if not data:
            self._log_open = False
            return False
        room = self._limits.log_bytes - len(self.log)
        self.log += data[:room]
        if len(data) > room:
            self._fail("child:user:too-much-output")
        return True

    def _look(self, pause_s: float) -> float:
        """Judges memory and scratch; answers how long nothing can go wrong."""
        self._tree.scan()
        memory, usage = self._tree.memory(), self._usage()
        tmpfs = usage.used_bytes if usage.held_in_memory else 0
        left = self._limits.memory_bytes - memory.private - memory.shared - tmpfs
        if left < 0:
            # forked processes share pages that were counted once for each
            left = self._limits.memory_bytes - self._tree.proportional_bytes() - tmpfs
            if left < 0:
                self._fail("child:user:out-of-memory")
        if usage.left_bytes < 0 or usage.files > self._limits.scratch_files:
            self._fail("child:user:disk-full")
        room = left if usage.held_in_memory else min(left, usage.left_bytes)
        return min(LONGEST_S, max(SHORTEST_S, room / FILLING_BYTES_PER_S))

    def _fail(self, verdict: str) -> None:
        if self.verdict is None:
            self.verdict = verdict
            self._end()

    def scratch_is_full(self) -> bool:
        """For a failure whose own words do not say so."""
        usage = self._usage()
        return usage.left_bytes < FULL_BELOW_BYTES or usage.files > self._limits.scratch_files

    def close(self) -> None:
        """Ends the thread and takes what is left of the log. The child must be dead: a living one could hold it up."""
        if self._stop_write < 0:
            return
        os.write(self._stop_write, b"x")
        self._thread.join()
        poll = select.poll()
        poll.register(self._log_fd, select.POLLIN)
        while self._log_open and self.verdict is None and poll.poll(0):
            if not self._drain():
                break
        for fd in (self._stop_read, self._stop_write, self._log_fd):
            os.close(fd)
        self._stop_write = -1
