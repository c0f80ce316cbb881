"""The processes of one child as the host sees them: found by parentage, held by pidfd, measured, stopped, killed.

A pid can be reused by a stranger between a look and a signal; a pidfd cannot.
"""

from __future__ import annotations

import os
import signal
import stat
import threading
import time
from dataclasses import dataclass

from optimizer.sandbox.descendants import parent_of

PAGE = os.sysconf("SC_PAGE_SIZE")
FORGET_STRANGERS_EVERY = 40


@dataclass(frozen=True)
class Memory:
    """Bytes over the tree. `private` and `shared` are resident; a page that n processes share counts n times."""

    private: int
    shared: int
    resident: int


class Tree:
    """`roots` are the launcher's own processes: they are followed, not counted, and never stopped."""

    def __init__(self, roots: set[int]) -> None:
        self._roots = {pid: os.pidfd_open(pid) for pid in roots}
        self._held: dict[int, int] = {}
        self._strangers: set[int] = set()
        self._scans = 0
        self._lock = threading.Lock()
        self._stopped = False

    def scan(self) -> list[int]:
        """Looks for new processes and forgets ended ones. Some 10 us for each process of the machine that is new."""
        with self._lock:
            if self._scans % FORGET_STRANGERS_EVERY == 0:
                self._strangers.clear()
            self._scans += 1
            seen = {int(entry) for entry in os.listdir("/proc") if entry.isdigit()}
            for held in (self._held, self._roots):
                for pid in list(held):
                    if pid not in seen or _ended(held[pid]):
                        os.close(held.pop(pid))
            self._strangers &= seen
            parents = {}
            for pid in seen - self._strangers - self._held.keys() - self._roots.keys():
                parent = parent_of(pid)
                if parent is not None:
                    parents[pid] = parent
            ours = self._roots.keys() | self._held.keys()
            grown = True
            while grown:
                new = {pid for pid, parent in parents.items() if parent in ours and pid not in ours}
                for pid in new:
                    self._hold(pid, ours)
                ours |= new
                grown = bool(new)
            self._strangers |= parents.keys() - ours
            return list(self._held)

    def _hold(self, pid: int, ours: set[int]) -> None:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        if parent_of(pid) in ours:
            self._held[pid] = fd
            if self._stopped:
                signal.pidfd_send_signal(fd, signal.SIGSTOP)
        else:
            os.close(fd)  # reparented or reused meanwhile: the next scan sees it rightly

    def stop(self) -> None:
        """SIGSTOP to every process known from the last scan, and by later scans to those that are new.

        It takes microseconds: measuring does it hundreds of times.
        """
        self._signal(signal.SIGSTOP, stopped=True)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT, stopped=False)

    def _signal(self, number: int, *, stopped: bool) -> None:
        with self._lock:
            self._stopped = stopped
            for fd in self._held.values():
                try:
                    signal.pidfd_send_signal(fd, number)
                except ProcessLookupError:
                    continue  # it ended

    def cpu_ns(self) -> int:
        """Processor time that its processes took so far, that of ended threads among it. Some microseconds."""
        total = 0
        for pid in list(self._held):
            try:
                total += time.clock_gettime_ns(_cpu_clock(pid))
            except OSError:
                continue  # it ended
        return total

    def memory(self) -> Memory:
        private = shared = resident = 0
        for pid in list(self._held):
            fields = _status(pid)
            private += fields.get("RssAnon", 0)
            shared += fields.get("RssShmem", 0)
            resident += fields.get("VmRSS", 0)
        return Memory(private, shared, resident)

    def proportional_bytes(self) -> int:
        """Private and shared pages with each page counted once. Walks page tables: for doubtful cases only."""
        return sum(_proportional(pid) for pid in list(self._held))

    def kill(self) -> None:
        """Stops all before it kills any, until a scan finds nobody: a fork bomb outruns a single sweep."""
        for sweep in range(200):
            if not self.scan():
                return
            self._signal(signal.SIGSTOP, stopped=True)
            if sweep:
                self._signal(signal.SIGKILL, stopped=True)
                time.sleep(0.002 if sweep < 20 else 0.02)

    def deleted_bytes(self, device: int) -> int:
        """What open files without a name take on `device`: a walk of folders does not see them."""
        taken: dict[int, int] = {}
        for pid in list(self._held):
            try:
                for entry in os.scandir(f"/proc/{pid}/fd"):
                    found = entry.stat()
                    if found.st_dev == device and found.st_nlink == 0 and stat.S_ISREG(found.st_mode):
                        taken[found.st_ino] = found.st_blocks * 512
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue  # it ended meanwhile
        return sum(taken.values())

    def close(self) -> None:
        with self._lock:
            for held in (self._held, self._roots):
                for fd in held.values():
                    os.close(fd)
                held.clear()


def _cpu_clock(pid: int) -> int:
    """As clock_getcpuclockid(3) gives it, which Python has for threads only."""
    return (~pid << 3) | 2


def _ended(pidfd: int) -> bool:
    try:
        signal.pidfd_send_signal(pidfd, 0)
    except ProcessLookupError:
        return True
    return False


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None  # it ended meanwhile


def _status(pid: int) -> dict[str, int]:
    fields = {}
    for line in (_read(f"/proc/{pid}/status") or b"").splitlines():
        name, _, rest = line.partition(b":")
        if name in (b"RssAnon", b"RssShmem", b"VmRSS"):
            fields[name.decode()] = int(rest.split()[0]) * 1024
    return fields


def _proportional(pid: int) -> int:
    total = 0
    for line in (_read(f"/proc/{pid}/smaps_rollup") or b"").splitlines():
        name, _, rest = line.partition(b":")
        if name in (b"Pss_Anon", b"Pss_Shmem"):
            total += int(rest.split()[0]) * 1024
    return total
