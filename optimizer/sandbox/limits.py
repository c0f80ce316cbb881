"""The kernel's own limits on each process of a child. They bound one process; the watcher bounds the tree."""

from __future__ import annotations

import os
import resource

from optimizer.sandbox.spec import Limits

# 1, not 0: with 0 the kernel still starts a `core_pattern` program, with 1 it does neither that nor write a file
CORE_BYTES = 1


def rlimits(limits: Limits, *, counts_from: int = 0, has_device: bool = False) -> list[tuple[int, int]]:
    """`(resource, value)` for the shim. `counts_from` is how many tasks the child's uid has already (RLIMIT_NPROC is
    per uid, not per child). A GPU's driver maps far more than it takes: there the watcher alone bounds memory."""
    memory = [] if has_device else [(resource.RLIMIT_DATA, limits.memory_bytes)]
    return [
        *memory,
        (resource.RLIMIT_CORE, CORE_BYTES),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, _at_most(resource.RLIMIT_NOFILE, limits.open_files)),
        (resource.RLIMIT_NPROC, _at_most(resource.RLIMIT_NPROC, limits.processes + counts_from)),
    ]


def trusted_rlimits() -> list[tuple[int, int]]:
    return [(resource.RLIMIT_CORE, CORE_BYTES)]


def _at_most(which: int, wanted: int) -> int:
    """An ordinary user may not go above the hard limit that it was given."""
    hard = resource.getrlimit(which)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)


def tasks_of(uid: int) -> int:
    """Threads that `uid` runs on this machine now."""
    count = 0
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if os.stat(f"/proc/{entry}").st_uid == uid:
                    count += len(os.listdir(f"/proc/{entry}/task"))
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue  # it ended meanwhile
    return count
