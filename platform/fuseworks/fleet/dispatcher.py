"""The dispatcher's loop: one at a time for a database, woken by NOTIFY and at least once a second.

Leadership is an advisory lock of the session that also listens: whoever loses that session has lost the lock, notices
at the next pass, and stands in line again. Two that lead for a moment do no harm (`attempt_open` locks each row).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import InterfaceError, OperationalError, connections
from psycopg import sql

from fuseworks.fleet.cleaning import DailyClean
from fuseworks.fleet.dispatching import Send, dispatch
from fuseworks.fleet.leadership import LOCK
from fuseworks.fleet.sender import BrokerDown
from fuseworks.runs.bell import CHANNEL
from fuseworks.runs.services import reap

WAKE_AT_LEAST_S = 1.0
LONGEST_PAUSE_S = 30.0
DATABASE_TROUBLE = (OperationalError, InterfaceError, psycopg.OperationalError, psycopg.InterfaceError)
log = logging.getLogger(__name__)


class Pause:
    """Doubles with each failure in a row, up to half a minute."""

    def __init__(self, first_s: float = 0.5) -> None:
        self._first_s = first_s
        self.reset()

    def reset(self) -> None:
        self._next_s, self.until = self._first_s, 0.0

    def failed(self) -> float:
        seconds = self._next_s
        self.until = time.monotonic() + seconds
        self._next_s = min(2 * seconds, LONGEST_PAUSE_S)
        return seconds

    def is_over(self) -> bool:
        return time.monotonic() >= self.until


class Dispatcher:
    """`run` returns after `stop`, within a second or so. `clean` is called once a day, in a thread of its own, while it
    leads; `on_lead` is told whether it leads or stands by."""

    def __init__(self, send: Send, clean: Callable[[], Any], *, on_lead: Callable[[bool], None]) -> None:
        self._send, self._on_lead = send, on_lead
        self._daily = DailyClean(clean)
        self._stopping = threading.Event()
        self._broker, self._database = Pause(), Pause()

    def stop(self, *_: Any) -> None:
        """May be a signal's handler."""
        self._stopping.set()

    def run(self) -> None:
        """Nothing that fails in here ends it: what could not be done is found again in the database."""
        while not self._stopping.is_set():
            try:
                with _session() as session:
                    self._stand_in_line(session)
                    self._lead(session)
            except DATABASE_TROUBLE as error:
                seconds = self._database.failed()
                log.warning("the database does not answer; trying again in %.1f s: %s", seconds, error)
                connections.close_all()
                self._stopping.wait(seconds)
        connections.close_all()

    def _stand_in_line(self, session: psycopg.Connection[Any]) -> None:
        told = False
        while not self._stopping.is_set():
            got = session.execute("SELECT pg_try_advisory_lock(%s)", [LOCK]).fetchone()
            if got is not None and got[0]:
                return
            if not told:
                log.info("another dispatcher is at work: this one stands by")
                self._on_lead(False)
                told = True
            self._stopping.wait(WAKE_AT_LEAST_S)

    def _lead(self, session: psycopg.Connection[Any]) -> None:
        if self._stopping.is_set():
            return
        session.execute(sql.SQL("LISTEN {}").format(sql.Identifier(CHANNEL)))
        log.info("dispatching")
        self._on_lead(True)
        while not self._stopping.is_set():
            self._pass()
            self._database.reset()
            for _ in session.notifies(timeout=WAKE_AT_LEAST_S, stop_after=1):
                pass

    def _pass(self) -> None:
        try:
            reap()
            self._daily.when_due()
            if self._broker.is_over():
                dispatch(send=self._send)
                self._broker.reset()
        except BrokerDown as error:
            seconds = self._broker.failed()
            log.warning("the broker does not answer; trying again in %.1f s: %s", seconds, error)
        except DATABASE_TROUBLE:
            raise
        except Exception:
            log.exception("a pass failed; the next one begins anew")


@contextmanager
def _session() -> Iterator[psycopg.Connection[Any]]:
    """A connection beside Django's own, in autocommit, for the lock and the bell."""
    wrapper = connections["default"].copy()
    try:
        wrapper.ensure_connection()
        yield wrapper.connection
    finally:
        wrapper.close()
