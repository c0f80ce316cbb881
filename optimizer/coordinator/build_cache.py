"""What was built before, by key: rewritten graphs and compiled artifacts, so that the same run builds nothing twice.

An artifact was made by a child that had a stranger's upload in it. So it is served for that very content only (the key
holds the upload's SHA-256), is data here and is loaded only in a sandbox, like one that was just built. An entry of
which a file is missing or changed is a miss and goes; beyond the limit the least recently used go. Failures are not
kept: what did not compile is tried again by the next run.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from optimizer.compiling.toolchain import default_folder

LIMIT_BYTES = 4 << 30
FREE_SHARE = 0.1  # of what the disk has left: a small one is not filled up
ENTRY_SHARE = 0.25  # of the limit: what is larger would push out everything else
DOCUMENT = "entry.json"
ABANDONED_S = 3600.0


class BuildCache:
    """Entries are folders named by their key. Any number of processes may use one cache at once."""

    def __init__(self, folder: Path | None = None, limit_bytes: int | None = None) -> None:
        self.folder = folder or default_folder() / "builds"
        self._limit_bytes = limit_bytes

    def fetch(self, key: str, into: Path) -> dict[str, Any] | None:
        """Copies the entry's files into `into` and gives its document; None where there is no whole entry."""
        entry = self.folder / key
        try:
            kept = json.loads((entry / DOCUMENT).read_bytes())
            files, document = dict(kept["files"]), dict(kept["document"])
            for name, sha256 in files.items():
                if Path(name).name != name or _copied(entry / name, into / name) != sha256:
                    raise ValueError(f"{name} was changed")
            os.utime(entry)
        except FileNotFoundError:
            if entry.exists():
                self._drop(entry, into)
            return None
        except (OSError, ValueError, KeyError, TypeError):
            self._drop(entry, into)
            return None
        return document

    def store(self, key: str, files: Sequence[Path], document: dict[str, Any]) -> None:
        """Keeps copies. What does not fit or cannot be written is not kept: a cache is no reason for a run to fail."""
        limit_bytes = self.limit_bytes()
        if sum(path.stat().st_size for path in files) > ENTRY_SHARE * limit_bytes:
            return
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            partial = Path(tempfile.mkdtemp(prefix=".new-", dir=self.folder))
            try:
                digests = {path.name: _copied(path, partial / path.name) for path in files}
                (partial / DOCUMENT).write_text(json.dumps({"files": digests, "document": document}))
                with contextlib.suppress(FileExistsError, OSError):
                    partial.rename(self.folder / key)  # another process may have been first with the same
            finally:
                shutil.rmtree(partial, ignore_errors=True)
            self._evict(limit_bytes)

    def limit_bytes(self) -> int:
        if self._limit_bytes is not None:
            return self._limit_bytes
        there = next((one for one in (self.folder, *self.folder.parents) if one.exists()), None)
        if there is None:
            return LIMIT_BYTES
        return min(LIMIT_BYTES, self.size_bytes() + int(FREE_SHARE * shutil.disk_usage(there).free))

    def size_bytes(self) -> int:
        return sum(size for _, size, _ in self._entries())

    def _evict(self, limit_bytes: int) -> None:
        with open(self.folder / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for left in self.folder.glob(".new-*"):  # of a process that was killed while it wrote
                if left.stat().st_mtime < time.time() - ABANDONED_S:
                    shutil.rmtree(left, ignore_errors=True)
            entries = sorted(self._entries(), key=lambda entry: entry[2], reverse=True)
            total = 0
            for entry, size, _ in entries:
                total += size
                if total > limit_bytes:
                    shutil.rmtree(entry, ignore_errors=True)

    def _entries(self) -> Iterator[tuple[Path, int, float]]:
        """(folder, bytes, last used) of each; one that another process removes meanwhile is left out."""
        for entry in self.folder.glob("[0-9a-f]*"):
            with contextlib.suppress(FileNotFoundError):
                yield entry, sum(path.stat().st_size for path in entry.iterdir()), entry.stat().st_mtime

    def _drop(self, entry: Path, into: Path) -> None:
        shutil.rmtree(entry, ignore_errors=True)
        for path in into.iterdir():  # a folder of this fetch's own: no half of an entry is left in it
            path.unlink()


def _copied(source: Path, target: Path) -> str:
    """The SHA-256 of what was copied."""
    digest = hashlib.sha256()
    with open(source, "rb") as reading, open(target, "wb") as writing:
        os.fchmod(writing.fileno(), 0o644)  # children run under another uid and read it
        while chunk := reading.read(1 << 20):
            digest.update(chunk)
            writing.write(chunk)
    return digest.hexdigest()
