"""What an operation of a child works with: its state between calls, its scratch, and the way to hand files over."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from optimizer.children import wire

FILE_CHUNK_BYTES = 1 << 20


@dataclass
class Session:
    """One per child process. `state` is for the stage modules (`state["contender"]`); `scratch` is writable."""

    fd: int
    scratch: Path
    state: dict[str, Any] = field(default_factory=dict)

    def send_file(self, name: str, path: Path) -> None:
        """Streams a file to the coordinator, which files it under `name` (a plain file name) in `collect`."""
        size = os.path.getsize(path)
        wire.send(self.fd, {"event": "file", "name": name, "size": size})
        with open(path, "rb") as file:
            left = size
            while left:
                chunk = file.read(min(left, FILE_CHUNK_BYTES))
                if not chunk:
                    raise RuntimeError(f"{name} shrank while it was sent")
                wire.write_all(self.fd, chunk)
                left -= len(chunk)

    def send_folder(self, folder: Path, prefix: str = "") -> None:
        """Every file below `folder`, with `/` in relative names written as `__`."""
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            self.send_file(prefix + path.relative_to(folder).as_posix().replace("/", "__"), path)

    def progress(self, message: str, **data: Any) -> None:
        wire.send(self.fd, {"event": "progress", "message": message, "data": data})
