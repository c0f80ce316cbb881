"""The coordinator of one run: `python -m optimizer run SPEC` below a keeper, its events read from a pipe.

It gets the worker's environment without the worker's secrets, and a folder for temporary files inside the scratch, so
that whatever a kill leaves behind lies in one place.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from optimizer.result import Event
from workers import keeper

SECRET_NAMES = frozenset({"REDIS_URL", "DATABASE_URL"})
SECRET_WORDS = ("TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "API_KEY", "ACCESS_KEY")
MAX_EVENT_BYTES = 4 << 20
KEEPER = Path(keeper.__file__).resolve()
KILL_S, TICK_S = 30.0, 0.1
log = logging.getLogger(__name__)


class BrokenEvents(Exception):
    """What comes over the pipe has no end."""


def environment(temporary: Path, given: Mapping[str, str] | None = None) -> dict[str, str]:
    """What the coordinator may know of the worker's environment."""
    given = os.environ if given is None else given
    kept = {name: value for name, value in given.items() if not _is_secret(name)}
    return {**kept, "TMPDIR": str(temporary)}


def _is_secret(name: str) -> bool:
    return name in SECRET_NAMES or any(word in name.upper() for word in SECRET_WORDS)


class Coordinator:
    """Starts on construction. `close` must be called: it ends every process of the run and is safe at any time."""

    def __init__(
        self, command: Sequence[str], spec: Path, *, log_file: Path, temporary: Path, lease_s: float, lock_fd: int
    ) -> None:
        self._events, events_write = os.pipe()
        lifeline_read, self._lifeline = os.pipe()
        given = (sys.executable, "-I", "-S", "-B", str(KEEPER), str(lifeline_read), str(lock_fd), str(lease_s))
        try:
            with log_file.open("wb") as out:
                self._process = subprocess.Popen(
                    [*given, *command, "run", str(spec), "--events-fd", str(events_write)],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    env=environment(temporary),
                    pass_fds=[lifeline_read, lock_fd, events_write],
                    start_new_session=True,
                )
        except BaseException:
            os.close(self._events)
            os.close(self._lifeline)
            raise
        finally:
            os.close(lifeline_read)
            os.close(events_write)
        self._process_fd = os.pidfd_open(self._process.pid)
        self._pending = b""
        self._events_open = True
        self._lock = threading.Lock()  # the heartbeat's thread speaks too, and a number that was closed is reused
        os.set_blocking(self._events, False)
        os.set_blocking(self._lifeline, False)

    @property
    def pid(self) -> int:
        """Of the keeper; also the process group and session of keeper and coordinator."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """How the coordinator ended, as a shell would say it; None while anything of the run lives."""
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def events(self, timeout_s: float) -> list[Event]:
        """Those that came, after at most `timeout_s`; at once when the coordinator has ended. Raises BrokenEvents."""
        watched = [self._process_fd, *([self._events] if self._events_open else [])]
        ready, _, _ = select.select(watched, [], [], timeout_s)
        return self._read() if self._events_open and (self._events in ready or self._process_fd in ready) else []

    def _read(self) -> list[Event]:
        found: list[Event] = []
        while True:
            try:
                chunk = os.read(self._events, 1 << 16)
            except BlockingIOError:
                return found
            if not chunk:
                self._events_open = False
                return found
            *lines, self._pending = (self._pending + chunk).split(b"\n")
            if len(self._pending) > MAX_EVENT_BYTES:
                raise BrokenEvents(f"an event is longer than {MAX_EVENT_BYTES >> 20} MiB")
            found += [event for event in map(_event, lines) if event is not None]

    def renew(self) -> None:
        """The lease was renewed: the keeper may let the run live for another."""
        self._say(b".")

    def stop(self, polite_s: float) -> list[Event]:
        """Asks the coordinator to end and write what it has, waits at most `polite_s`, then kills. The last events."""
        found: list[Event] = []
        deadline = time.monotonic() + polite_s
        if polite_s > 0:
            self._say(keeper.TERMINATE)
        while self.code is None and time.monotonic() < deadline:
            found += self.events(TICK_S)  # a pipe that nobody reads would hold it up
        self._kill()
        return found + (self._read() if self._events_open else [])

    def _kill(self) -> None:
        """By closing the lifeline: the keeper ends all. One that does not is killed, and the kernel ends the rest."""
        with self._lock:
            if self._lifeline >= 0:
                os.close(self._lifeline)
                self._lifeline = -1
        try:
            self._process.wait(KILL_S)
        except subprocess.TimeoutExpired:
            log.error("the keeper of a run did not end in %.0f s and is killed", KILL_S)
            self._process.kill()
            self._process.wait()

    def _say(self, word: bytes) -> None:
        with self._lock, contextlib.suppress(BrokenPipeError, BlockingIOError):  # it ended, or has enough to read
            if self._lifeline >= 0:
                os.write(self._lifeline, word)

    def close(self) -> None:
        self._kill()
        if self._process_fd >= 0:
            os.close(self._process_fd)
            os.close(self._events)
            self._process_fd = -1


def _event(line: bytes) -> Event | None:
    try:
        return Event.model_validate_json(line)
    except ValidationError as error:
        log.warning("the coordinator sent a line that is no event: %s", error.errors(include_input=False)[:3])
        return None
