"""Events while a run works: JSON lines on a descriptor, one per step a person would want to see."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, Literal, get_args

from optimizer.result import Event

Kind = Literal[
    "capturing", "profiling", "diagnosing", "optimizing", "compiling", "verifying", "benchmarking", "log", "finished"
]
assert set(get_args(Kind)) == set(get_args(Event.model_fields["kind"].annotation))
Sink = Callable[[Event], None]


class Emitter:
    """Stamps events with the time since the run began and adds up the seconds of each stage."""

    def __init__(self, sink: Sink, budget_s: float) -> None:
        self._sink = sink
        self._budget_s = budget_s
        self._began = time.monotonic()
        self.stages_s: dict[str, float] = {}

    def elapsed_s(self) -> float:
        return time.monotonic() - self._began

    def emit(
        self,
        kind: Kind,
        message: str,
        *,
        candidate: str | None = None,
        done: int | None = None,
        total: int | None = None,
        **data: Any,
    ) -> None:
        self._sink(
            Event(
                kind=kind,
                at_s=round(self.elapsed_s(), 3),
                budget_s=self._budget_s,
                message=message,
                candidate=candidate,
                done=done,
                total=total,
                data=data,
            )
        )

    @contextmanager
    def stage(self, kind: Kind, message: str, candidate: str | None = None) -> Any:
        """A stretch of work of one stage; its seconds are added up whatever happens."""
        self.emit(kind, message, candidate=candidate)
        began = time.monotonic()
        try:
            yield
        finally:
            self.stages_s[kind] = self.stages_s.get(kind, 0.0) + time.monotonic() - began


def descriptor_sink(fd: int) -> Sink:
    """Writes each event as a JSON line. A reader that went away does not end the run."""
    alive = True

    def write(event: Event) -> None:
        nonlocal alive
        if not alive:
            return
        line = event.model_dump_json(exclude_none=True).encode() + b"\n"
        try:
            while line:
                line = line[os.write(fd, line) :]
        except BrokenPipeError:
            alive = False

    return write
