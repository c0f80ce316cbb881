"""How a worker is seen by the platform: hello when it is ready, a sign of life now and then, goodbye at its end.

In a thread of its own, and never in the way of a run: whatever fails here is logged and tried again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from workers.api import FleetApi
from workers.http import ApiError, Refused

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
UNKNOWN = 404
log = logging.getLogger(__name__)


class Presence:
    """`floor` is asked at each hello: the noise floor may have been measured since."""

    def __init__(self, api: FleetApi, manifest: dict[str, Any], floor: Callable[[], dict[str, Any]]) -> None:
        self._api, self._manifest, self._floor = api, manifest, floor
        self._ended = threading.Event()
        self._told_floor: dict[str, Any] | None = None
        self._thread = threading.Thread(target=self._run, name="presence", daemon=True)

    def start(self) -> None:
        if not self._thread.is_alive():
            self._thread.start()

    def end(self) -> None:
        """Says goodbye, once, when the platform ever heard of this worker."""
        if self._ended.is_set():
            return
        self._ended.set()
        if self._told_floor is None:
            return
        try:
            self._api.goodbye()
        except ApiError as error:
            log.warning("no goodbye: %s", error)

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._ended.is_set():
            try:
                every_s = self._hello()
                pause_s = FIRST_PAUSE_S
                self._live(every_s)
            except ApiError as error:
                log.warning("the platform does not know of this worker yet: %s", error)
            except Exception:
                log.exception("presence")
            self._ended.wait(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _hello(self) -> float:
        floor = self._floor()
        every_s = self._api.hello(self._manifest, floor, go_on=lambda: False)
        self._told_floor = floor
        return every_s

    def _live(self, every_s: float) -> None:
        """Until the platform forgot this worker, or there is a new noise floor to tell."""
        while not self._ended.wait(every_s):
            if self._floor() != self._told_floor:
                return
            try:
                self._api.alive()
            except Refused as error:
                if error.status == UNKNOWN:
                    return
                log.warning("no sign of life: %s", error)
            except ApiError as error:
                log.warning("no sign of life: %s", error)
