"""Posts events in numbered batches from a thread of its own, so that a slow platform never slows the run.

The numbers make a doubled post harmless. Events that the platform refuses for good are logged and left out: they tell
of the run, they are not its result.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from optimizer.result import Event
from workers.api import Stale
from workers.http import Refused, Unreachable
from workers.lease import Lease, Verdict

BATCH, BATCH_BYTES = 50, 1 << 20
EVERY_S = 0.5
FIRST = 0
log = logging.getLogger(__name__)

Post = Callable[[int, Sequence[Event]], None]


class Reporter:
    """`add` from any thread. As a context manager it sends what is left at the end, unless the lease is gone."""

    def __init__(self, post: Post, lease: Lease, *, every_s: float = EVERY_S) -> None:
        self._post, self._lease, self._every_s = post, lease, every_s
        self._waiting: list[Event] = []
        self._next = FIRST
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="reporter", daemon=True)

    def add(self, event: Event) -> None:
        with self._changed:
            self._waiting.append(event)
            if len(self._waiting) >= BATCH:
                self._changed.notify()

    def _run(self) -> None:
        try:
            while self._lease.holds():
                with self._changed:
                    self._changed.wait_for(lambda: self._closed or len(self._waiting) >= BATCH, self._every_s)
                    batch, closed = self._take(), self._closed
                if batch:
                    self._send(batch)
                elif closed:
                    return
        except Stale as stale:
            log.warning("the attempt is over: %s", stale)
            self._lease.end(Verdict.STALE)
        except Unreachable as error:
            log.warning("events were not posted, and the lease is gone: %s", error)
        except Exception:
            log.exception("events are reported no more")

    def _take(self) -> list[Event]:
        size, count = 0, 0
        for event in self._waiting[:BATCH]:
            size += len(event.model_dump_json())
            if count and size > BATCH_BYTES:
                break
            count += 1
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch

    def _send(self, batch: list[Event]) -> None:
        first, self._next = self._next, self._next + len(batch)
        try:
            self._post(first, batch)
        except Refused as error:
            log.error("the platform refuses events %d to %d: %s", first, self._next - 1, error)

    def __enter__(self) -> Reporter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()
