"""The events while a run works: one JSON line each."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from optimizer.result.base import Model


class Event(Model):
    """One line while a run works. `kind` is the stage's name, or `log`, `finished`."""

    kind: Literal[
        "capturing",
        "profiling",
        "diagnosing",
        "optimizing",
        "compiling",
        "verifying",
        "benchmarking",
        "log",
        "finished",
    ]
    at_s: float = Field(description="seconds since the run began")
    budget_s: float
    message: str
    candidate: str | None = None
    done: int | None = None
    total: int | None = None
    data: dict[str, Any] = Field(default_factory=dict)
