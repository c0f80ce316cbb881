"""Cleans once a day, beside the dispatcher's loop: a large clean takes minutes, in which leases must be watched."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.db import connections
from django.utils import timezone

EVERY = timedelta(days=1)
log = logging.getLogger(__name__)


class DailyClean:
    """`when_due` returns at once. The thread has connections of its own, and ends with the process at any moment: what
    was not removed is found again tomorrow."""

    def __init__(self, clean: Callable[[], Any]) -> None:
        self._clean = clean
        self._begun_at: datetime | None = None
        self._thread: threading.Thread | None = None

    def when_due(self, now: datetime | None = None) -> None:
        now = now or timezone.now()
        is_early = self._begun_at is not None and now - self._begun_at < EVERY
        if is_early or (self._thread is not None and self._thread.is_alive()):
            return
        self._begun_at = now  # first: what fails is tried again tomorrow, not each second
        self._thread = threading.Thread(target=self._run, name="clean", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            log.info("cleaned: %s", self._clean())
        except Exception:
            log.exception("cleaning failed; it is tried again tomorrow")
        finally:
            connections.close_all()  # this thread's
