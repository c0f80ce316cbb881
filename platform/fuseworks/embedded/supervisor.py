"""Starts all processes of an installation, watches them, ends them together.

Order: database, broker, tables, web, dispatcher, workers; the reverse at the end. Each child is signalled by the kernel
when this process dies (`children.spawn`), so none is orphaned by a crash. A child that ends by itself is told at once.
A worker or the dispatcher is started again, up to `AGAIN_AT_MOST` times within `AGAIN_WITHIN_S`: runs have leases, and
what the worker left is gone by then. Of any other all are ended, with the end of its log: half a platform looks like a
slow one.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType

from fuseworks.embedded.children import adopt_orphans, await_ready, end, end_orphans, spawn, tail
from fuseworks.embedded.installation import ROOT, Installation

WEB_TIMEOUT_S = 60.0
WORKER_GRACE_S = 30.0
WATCH_S = 0.2
STOP_PATIENCE_S = 5.0
AGAIN_AT_MOST, AGAIN_WITHIN_S = 3, 300.0


class ChildEnded(RuntimeError):
    """A process of the installation ended although nobody asked it to, and is not started again."""


@dataclass
class Watched:
    name: str
    process: subprocess.Popen[bytes]
    log: Path
    grace_s: float = 20.0
    start_again: Callable[[], subprocess.Popen[bytes]] | None = None
    ended_at: list[float] = field(default_factory=list)


class Supervisor:
    """`start`, then `watch` until a signal or a dead child that cannot be borne, then always `stop`."""

    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        self._watched: list[Watched] = []
        self._interrupted = False

    def start(self) -> None:
        """Raises ServerFailed, AlreadyRunning, KeyboardInterrupt (SIGTERM too)."""
        for ending in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(ending, self._interrupt)
        adopt_orphans()
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
        command: list[str | Path] = [sys.executable, ROOT / "manage.py", "dispatch"]
        self._spawn("dispatcher", command, here.environment(), again=True)
        for number in range(1, here.workers + 1):
            command = [sys.executable, "-m", "workers"]
            self._spawn(f"worker {number}", command, here.worker_environment(number), WORKER_GRACE_S, again=True)
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
        self,
        name: str,
        command: Sequence[str | Path],
        environment: dict[str, str],
        grace_s: float = 20.0,
        *,
        again: bool = False,
    ) -> Watched:
        log = self.installation.logs / f"{name.replace(' ', '-')}.log"
        start = partial(spawn, command, log=log, environment=environment, cwd=ROOT)
        watched = Watched(name, start(), log, grace_s, start if again else None)
        self._watched.append(watched)
        return watched

    def check(self, *callers: subprocess.Popen[bytes]) -> None:
        """Starts again what died and may be; raises ChildEnded for any other, and KeyboardInterrupt once a signal came.
        `callers`: children that are not ours."""
        if self._interrupted:
            raise KeyboardInterrupt
        for watched in self._watched:
            code = watched.process.poll()
            if code is not None:
                self._ended(watched, code, callers)

    def _ended(self, watched: Watched, code: int, callers: Sequence[subprocess.Popen[bytes]]) -> None:
        now = time.monotonic()
        watched.ended_at = [*(at for at in watched.ended_at if now - at < AGAIN_WITHIN_S), now]
        times, within = len(watched.ended_at), f"within {AGAIN_WITHIN_S / 60:.0f} minutes"
        said = f"The {watched.name} ended with code {code}"
        if watched.start_again is None or times > AGAIN_AT_MOST:
            often = f" ({times} times {within})" if times > 1 else ""
            raise ChildEnded(f"{said}{often}; ending all. Its log ends:\n{tail(watched.log)}")
        say = f"{said}; it is started again ({times} of at most {AGAIN_AT_MOST} times {within}). Its log: {watched.log}"
        print(f"\n==> {say}", file=sys.stderr, flush=True)
        kept = {process.pid for process in (*(one.process for one in self._watched), *callers)}
        if left := end_orphans(kept):
            raise ChildEnded(f"{said}, and what it left does not end (processes {left}); ending all.")
        watched.process = watched.start_again()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        """Remembered as well as raised: Python swallows what a handler raises while a fork's callbacks run, and a child
        that dies is forked anew."""
        self._interrupted = True
        raise KeyboardInterrupt

    def watch(self) -> None:
        """Until a child ends that is not started again (ChildEnded) or a signal comes (KeyboardInterrupt)."""
        while True:
            self.check()
            time.sleep(WATCH_S)

    def stop(self) -> None:
        """Ends all, last started first, and what a dead one left; a second Ctrl-C does not leave half of them."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        while self._watched:
            watched = self._watched.pop()
            by = signal.SIGINT if watched.name == "PostgreSQL" else signal.SIGTERM
            end(watched.process, by=by, timeout_s=watched.grace_s)
        for server in (self.installation.valkey, self.installation.postgres):
            if server is not None:
                server.stop()  # one whose start was interrupted is not watched yet
        if left := end_orphans((), patience_s=STOP_PATIENCE_S):
            print(f"==> Processes {left} do not end.", file=sys.stderr, flush=True)


def _answers(url: str) -> bool:
    request = urllib.request.Request(url, headers={"Accept": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=2):
            return True
    except urllib.error.HTTPError as error:
        return error.code < 500
    except OSError:
        return False
