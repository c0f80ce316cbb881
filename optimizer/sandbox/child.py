"""A child process seen from the coordinator: started under confinement, called over the wire, paused and killed."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from optimizer.children import wire
from optimizer.errors import FuseworksError

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What one child may take. Bytes and counts."""

    memory_bytes: int = 8 << 30
    scratch_bytes: int = 4 << 30
    file_bytes: int = 4 << 30
    log_bytes: int = 8 << 20
    processes: int = 256


@dataclass(frozen=True)
class ChildSpec:
    """What a child gets: `inputs` are host paths made visible read-only, by name; `environment` adds to the scrubbed one."""

    name: str
    inputs: Mapping[str, Path] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = Limits()
    trusted: bool = False


@dataclass(frozen=True)
class Reply:
    fields: dict[str, Any]
    arrays: list[np.ndarray]


class ChildFailed(FuseworksError):
    """The child itself failed (crash, hang, memory, protocol) or reported an error; it is dead or unusable now."""


class Child:
    """PROVISIONAL trusted launcher: replaced by the confined one, with this interface."""

    def __init__(self, spec: ChildSpec) -> None:
        self.spec = spec
        self.scratch = Path(tempfile.mkdtemp(prefix="fuseworks-"))
        ours, theirs = socket.socketpair()
        self._socket = ours
        self._log = self.scratch / "log.txt"
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.scratch),
            "TMPDIR": str(self.scratch),
            "USER": "fuseworks",
            "LANG": "C.UTF-8",
            "FUSEWORKS_SCRATCH": str(self.scratch),
            **spec.environment,
        }
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "optimizer.children", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                pass_fds=[theirs.fileno()],
            )
        theirs.close()
        self.ready = self._receive(60.0, None, None, "starting").fields

    def path(self, name: str) -> str:
        """Where the child sees input `name`."""
        return str(self.spec.inputs[name])

    def call(
        self,
        op: str,
        arrays: Sequence[np.ndarray] = (),
        *,
        timeout_s: float,
        collect: Path | None = None,
        on_progress: Callable[[str, dict[str, Any]], None] | None = None,
        **fields: Any,
    ) -> Reply:
        """Runs `stage.name` in the child. Files that it sends land in `collect`. Raises ChildFailed."""
        wire.send(self._socket.fileno(), {"op": op, **fields}, arrays)
        return self._receive(timeout_s, collect, on_progress, op)

    def _receive(self, timeout_s: float, collect: Path | None, on_progress: Any, doing: str) -> Reply:
        deadline = time.monotonic() + timeout_s
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._socket], [], [], left)[0]:
                self.kill()
                raise ChildFailed("child:user:timed-out", limit_s=round(timeout_s), doing=doing, detail=self.log_tail())
            try:
                header, arrays = wire.receive(self._socket.fileno())
            except EOFError:
                code = self._process.wait()
                raise ChildFailed("child:user:crashed", signal=f"exit code {code}", detail=self.log_tail()) from None
            event = header.pop("event", None)
            if event == "file":
                self._take_file(collect, header)
            elif event == "progress":
                if on_progress:
                    on_progress(str(header.get("message")), dict(header.get("data") or {}))
            elif "error" in header:
                document = header["error"]
                raise ChildFailed.from_document(document)
            else:
                return Reply(header, arrays)

    def _take_file(self, collect: Path | None, header: dict[str, Any]) -> None:
        if collect is None:
            raise ChildFailed("child:user:bad-answer", text="it sent a file that nobody asked for")
        collect.mkdir(parents=True, exist_ok=True)
        left = int(header["size"])
        with open(collect / Path(header["name"]).name, "wb") as file:
            while left:
                chunk = wire.read_exactly(self._socket.fileno(), min(left, MIB))
                file.write(chunk)
                left -= len(chunk)

    def _tree(self) -> list[psutil.Process]:
        try:
            root = psutil.Process(self._process.pid)
            return [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def pause(self) -> None:
        """SIGSTOP to the whole tree: spinning threads of a waiting contender must not disturb the others."""
        for process in self._tree():
            process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        for process in self._tree():
            process.send_signal(signal.SIGCONT)

    def memory_bytes(self) -> int:
        return sum(p.memory_info().rss for p in self._tree())

    def log_tail(self, size: int = 8000) -> str:
        try:
            return self._log.read_bytes()[-size:].decode(errors="replace")
        except OSError:
            return ""

    def kill(self) -> None:
        for process in self._tree():
            process.kill()
        self._process.wait()
        self._socket.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def start(spec: ChildSpec) -> Child:
    """Starts a child and waits until it is ready. Raises ChildFailed, FuseworksError (`run:ours:machine`)."""
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    return Child(spec)
