"""Errors of the gates app."""

from __future__ import annotations

from fuseworks.core.errors import catalogue

catalogue(
    {
        "gates:usage:no-check": (
            404,
            "The run has no gate: it was started without a limit on latency_ratio.",
            "Start a run of purpose compare with max_latency_ratio.",
        )
    }
)
