"""Errors of the fleet: what a worker is told that says hello."""

from __future__ import annotations

from fuseworks.core.errors import catalogue

catalogue(
    {
        "fleet:usage:unknown-worker": (
            404,
            "No worker called {name} has said hello here.",
            "Say hello first.",
        ),
        "fleet:usage:no-worker-token": (
            403,
            "This site admits no workers: FUSEWORKS_WORKER_TOKEN is not set.",
            "Set the same FUSEWORKS_WORKER_TOKEN for the web site and its workers, and start both again.",
        ),
    }
)
