"""What this worker process is there for, and whether it is to end. Set by `python -m workers`, read by the task."""

from __future__ import annotations

from collections.abc import Callable

from workers.settings import Settings


class Duty:
    """`stop` may be called from a signal handler: a plain attribute, for a lock could be held by the code that it
    interrupts."""

    def __init__(self) -> None:
        self._settings: Settings | None = None
        self._goodbye: Callable[[], None] | None = None
        self._stopping = False

    def take(self, settings: Settings, goodbye: Callable[[], None]) -> None:
        self._settings, self._goodbye, self._stopping = settings, goodbye, False

    @property
    def settings(self) -> Settings:
        if self._settings is None:
            raise RuntimeError("this process was not started as a worker")
        return self._settings

    def stop(self) -> None:
        self._stopping = True

    def is_stopping(self) -> bool:
        return self._stopping

    def leave(self) -> None:
        """Says goodbye before a run is given back: else the platform would send the next one to a worker that ends."""
        if self._goodbye is not None:
            self._goodbye()


duty = Duty()
