"""The right to work a run, renewed by a heartbeat in a thread of its own. It learns there what ends the work.

Its time limit counts from `work_begins` to `work_is_done`: not while the worker waits for the device or hands in.

`lost`: no answer for longer than the lease; the platform may have given the run to another worker. After a freeze the
first beat decides: a platform that has not noticed lets the attempt go on.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from enum import StrEnum

from pydantic import ValidationError

from workers.api import Beat, Stale
from workers.http import ApiError

BEATS_A_LEASE = 4
SHORTEST_S = 0.05
log = logging.getLogger(__name__)


class Verdict(StrEnum):
    """Why the work must end."""

    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    STALE = "stale"
    LOST = "lost"
    STOPPED = "stopped"  # not the lease's word: this worker is to end


class Lease:
    """`beat` tells whether it works, and asks, once. `on_renewed` is called after each beat that was answered."""

    def __init__(self, beat: Callable[[bool], Beat], *, lease_s: float, time_left_s: float) -> None:
        self.verdict: Verdict | None = None
        self.on_renewed: Callable[[], None] | None = None
        self._beat = beat
        self._works = False
        self._is_closed = False
        self._wake = threading.Event()
        self._lock = threading.Lock()  # of the clock
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._taken(time.monotonic(), lease_s, time_left_s, works=False)

    @property
    def is_gone(self) -> bool:
        """Nothing that this attempt posts is of use any more."""
        return self.verdict in (Verdict.STALE, Verdict.LOST)

    def holds(self) -> bool:
        return not self.is_gone

    def end(self, verdict: Verdict) -> None:
        """The first verdict stays, but for one that says that the attempt is over."""
        if self.verdict is None or (verdict in (Verdict.STALE, Verdict.LOST) and not self.is_gone):
            self.verdict = verdict

    def work_begins(self) -> None:
        """The device is free: from here on the time limit counts. The platform is told at once."""
        self._set_clock(works=True)

    def work_is_done(self) -> None:
        """There is a result: nothing that comes can make it late."""
        self._set_clock(works=False)

    def _set_clock(self, *, works: bool) -> None:
        with self._lock:
            self._works = works
            self._time_up_at = time.monotonic() + self._time_left_s if works else math.inf
        self._wake.set()

    def _taken(self, at: float, lease_s: float, time_left_s: float, *, works: bool) -> None:
        self.lease_s, self._valid_until = lease_s, at + lease_s
        with self._lock:
            self._time_left_s = time_left_s
            if works == self._works:  # else the clock was set meanwhile, and the next beat tells so
                self._time_up_at = at + time_left_s if works else math.inf

    def _pause_s(self) -> float:
        pause_s = self.lease_s / BEATS_A_LEASE
        if self.verdict is None:
            pause_s = min(pause_s, self._time_up_at - time.monotonic())
        return max(SHORTEST_S, pause_s)

    def _run(self) -> None:
        try:
            while not self.is_gone:
                self._wake.wait(self._pause_s())
                self._wake.clear()
                if self._is_closed:
                    return
                self._once()
        except Exception:
            log.exception("the heartbeat failed in a way that nobody foresaw")
            self.end(Verdict.LOST)

    def _once(self) -> None:
        sent, works = time.monotonic(), self._works
        if sent >= self._time_up_at:
            self.end(Verdict.TIMED_OUT)
        try:
            beat = self._beat(works)
        except Stale as stale:
            log.warning("the attempt is over: %s", stale)
            return self.end(Verdict.STALE)
        except (ApiError, ValidationError) as error:
            log.warning("no heartbeat: %s", error)
            if time.monotonic() > self._valid_until:
                self.end(Verdict.LOST)
            return None
        self._taken(sent, beat.lease_s, beat.time_left_s, works=works)
        if beat.cancel:
            self.end(Verdict.CANCELLED)
        elif works and beat.time_left_s <= 0:
            self.end(Verdict.TIMED_OUT)
        if self.on_renewed is not None:
            self.on_renewed()
        return None

    def __enter__(self) -> Lease:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed = True
        self._wake.set()
        self._thread.join()
