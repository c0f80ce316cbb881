"""How full a child's writable places are, seen from outside."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from optimizer.sandbox.tree import Tree

RESERVE_BYTES = 1 << 30
UNBOUNDED = 1 << 62


@dataclass(frozen=True)
class Usage:
    """What a child's writable places hold. `held_in_memory`: they are tmpfs. `left_bytes` is of the scratch alone."""

    used_bytes: int
    left_bytes: int
    files: int
    held_in_memory: bool


class TmpfsUsage:
    """Bubblewrap's sized tmpfs mounts, held open through the sandbox's first process: the child cannot hide them."""

    def __init__(self, init_pid: int, scratch: str, shm: str) -> None:
        self._fds: list[int] = []
        self._init_pid, self._mounts = init_pid, (scratch, shm)

    def attach(self) -> None:
        """Only once the child runs: before, that process still sees the host's own folders."""
        flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        self._fds = [os.open(f"/proc/{self._init_pid}/root{mount}", flags) for mount in self._mounts]

    def __call__(self) -> Usage:
        if not self._fds:
            return Usage(used_bytes=0, left_bytes=UNBOUNDED, files=0, held_in_memory=True)
        scratch, shm = (os.statvfs(fd) for fd in self._fds)
        used = sum((s.f_blocks - s.f_bfree) * s.f_frsize for s in (scratch, shm))
        files = sum(s.f_files - s.f_ffree for s in (scratch, shm))
        return Usage(used, scratch.f_bavail * scratch.f_frsize, files, held_in_memory=True)

    def close(self) -> None:
        fds, self._fds = self._fds, []
        for fd in fds:
            os.close(fd)


class FolderUsage:
    """A folder on the host's disk, walked: nothing but this look bounds it. A reserve of the disk is never touched."""

    def __init__(self, folder: Path, limit_bytes: int, tree: Tree) -> None:
        self._folder, self._limit_bytes, self._tree = folder, limit_bytes, tree
        self._device = os.stat(folder).st_dev
        self._reserve_bytes = min(RESERVE_BYTES, self._free() // 2)

    def _free(self) -> int:
        disk = os.statvfs(self._folder)
        return disk.f_bavail * disk.f_frsize

    def attach(self) -> None:
        """Nothing to do: the folder is there from the start."""

    def __call__(self) -> Usage:
        used, files = self._tree.deleted_bytes(self._device), 0
        waiting = [str(self._folder)]
        while waiting:
            try:
                entries = list(os.scandir(waiting.pop()))
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                continue  # gone meanwhile, or made without rights, and then empty
            for entry in entries:
                files += 1
                try:
                    used += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                except FileNotFoundError:
                    continue
        left = min(self._limit_bytes - used, self._free() - self._reserve_bytes)
        return Usage(used, left, files, held_in_memory=False)

    def close(self) -> None:
        """Nothing is held."""
