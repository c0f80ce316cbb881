"""Starts all processes of an installation, watches them, ends them together.

Order: database, broker, tables, web, dispatcher, workers; the reverse at the end. Each child is signalled by the kernel
when this process dies (`children.spawn`), so none is orphaned by a crash. When one child ends by itself, that is told
at once with the end of its log, and all others are ended: half a platform looks like a slow one.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from fuseworks.embedded.children import await_ready, end, spawn, tail
from fuseworks.embedded.installation import ROOT, Installation

WEB_TIMEOUT_S = 60.0
WORKER_GRACE_S = 30.0
WATCH_S = 0.2


class ChildEnded(RuntimeError):
    """A process of the installation ended although nobody asked it to."""


@dataclass
class Watched:
    name: str
    process: subprocess.Popen[bytes]
    log: Path
    grace_s: float = 20.0


class Supervisor:
    """`start`, then `watch` until a signal or a dead child, then always `stop`."""

    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        self._watched: list[Watched] = []

    def start(self) -> None:
        """Raises ServerFailed, AlreadyRunning, KeyboardInterrupt (SIGTERM too)."""
        signal.signal(signal.SIGTERM, _interrupt)
        signal.signal(signal.SIGHUP, _interrupt)
        signal.signal(signal.SIGINT, _interrupt)
        here = self.installation
        here.hold()
        if here.postgres is not None:
            here.postgres.start()
            assert here.postgres.process is not None
            self._watched.append(Watched("PostgreSQL", here.postgres.process, here.postgres.log))
        if here.valkey is not None:
            here.valkey.start()
            assert here.valkey.process is not None
            self._watched.append(Watched("Valkey", here.valkey.process, here.valkey.log))
        here.prepare()
        self._start_web()
        self._spawn("dispatcher", [sys.executable, ROOT / "manage.py", "dispatch"], here.environment())
        for number in range(1, here.workers + 1):
            command = [sys.executable, "-m", "workers"]
            self._spawn(f"worker {number}", command, here.worker_environment(number), grace_s=WORKER_GRACE_S)
        self.check()

    def _start_web(self) -> None:
        here = self.installation
        command = [sys.executable, "-m", "uvicorn", "fuseworks.asgi:application", "--host", "127.0.0.1"]
        command += [
            "--port",
            str(here.port),
            "--no-server-header",
            "--no-access-log",
            "--timeout-graceful-shutdown",
            "5",
        ]
        web = self._spawn("web", command, here.environment())
        await_ready(
            "The web process",
            web.process,
            lambda: _answers(f"{here.url}/health/"),
            log=web.log,
            timeout_s=WEB_TIMEOUT_S,
        )

    def _spawn(
        self, name: str, command: Sequence[str | Path], environment: dict[str, str], grace_s: float = 20.0
    ) -> Watched:
        log = self.installation.logs / f"{name.replace(' ', '-')}.log"
        process = spawn(command, log=log, environment=environment, cwd=ROOT)
        watched = Watched(name, process, log, grace_s)
        self._watched.append(watched)
        return watched

    def check(self) -> None:
        """Raises ChildEnded when one of them is dead."""
        for watched in self._watched:
            code = watched.process.poll()
            if code is not None:
                raise ChildEnded(
                    f"The {watched.name} ended with code {code}; ending all. Its log ends:\n{tail(watched.log)}"
                )

    def watch(self) -> None:
        """Until a child ends by itself (ChildEnded) or a signal comes (KeyboardInterrupt)."""
        while True:
            self.check()
            time.sleep(WATCH_S)

    def stop(self) -> None:
        """Ends all, last started first; a second Ctrl-C does not leave half of them."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        while self._watched:
            watched = self._watched.pop()
            by = signal.SIGINT if watched.name == "PostgreSQL" else signal.SIGTERM
            end(watched.process, by=by, timeout_s=watched.grace_s)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _answers(url: str) -> bool:
    request = urllib.request.Request(url, headers={"Accept": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=2):
            return True
    except urllib.error.HTTPError as error:
        return error.code < 500
    except OSError:
        return False
