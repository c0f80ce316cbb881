"""Files that a child hands over: plain names only, sizes within limits, digests computed on the way."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optimizer.sandbox.channel import Channel, ProtocolError
from optimizer.sandbox.spec import Limits

PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+=@,-]{0,199}", re.ASCII)


@dataclass(frozen=True)
class CollectedFile:
    path: Path
    size_bytes: int
    sha256: str


class Collector:
    """Takes the files of one call into one folder. A link of the same name is replaced, never followed."""

    def __init__(self, folder: Path | None, limits: Limits) -> None:
        self._folder, self._limits = folder, limits
        self.files: dict[str, CollectedFile] = {}
        self._total = 0

    def take(self, header: dict[str, Any], channel: Channel, deadline: float) -> None:
        name, size = header.get("name"), header.get("size")
        if self._folder is None:
            raise ProtocolError("it sent a file that nobody asked for")
        if not isinstance(name, str) or not PLAIN_NAME.fullmatch(name):
            raise ProtocolError(f"it sent a file under the name {str(name)[:80]!r}")
        if name in self.files or len(self.files) >= self._limits.collected_files:
            raise ProtocolError(f"it sent {name!r} twice or too many files")
        if type(size) is not int or not 0 <= size <= self._limits.file_bytes:
            raise ProtocolError(f"it announced a file of {str(size)[:40]} bytes")
        self._total += size
        if self._total > self._limits.collected_bytes:
            raise ProtocolError(f"its files exceed {self._limits.collected_bytes} bytes")
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / name
        path.unlink(missing_ok=True)
        digest = hashlib.sha256()
        # readable for the uid that the next child drops to; the folder around it decides who else may
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            os.fchmod(fd, 0o644)
            channel.copy_to(fd, size, deadline, digest)
        finally:
            os.close(fd)
        self.files[name] = CollectedFile(path, size, digest.hexdigest())
