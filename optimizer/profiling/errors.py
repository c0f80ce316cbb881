"""Errors of the profiling stage. None of them ends a run: what is judged does not depend on a profile."""

from __future__ import annotations

from optimizer.errors import catalogue

catalogue(
    {
        "profiling:ours:untold": (
            "There is no profile of {engine}: {text}",
            "The run goes on without it: no verdict depends on a profile.",
        ),
    }
)
