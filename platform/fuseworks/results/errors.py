"""Errors of the results app."""

from __future__ import annotations

from fuseworks.core.errors import catalogue

catalogue(
    {
        "results:usage:none-yet": (
            404,
            "The run is {status} and has no result yet.",
            "Wait until it has ended: its status is at /api/v1/runs/{run_id}/.",
        ),
        "results:usage:none": (
            404,
            "The run {status} without leaving a result.",
            "The run's page says what ended it; start it again from there.",
        ),
        "results:ours:unreadable": (
            500,
            "The result of this run was written by another version of Fuseworks and cannot be shown: {text}",
            "Run it again, or read the document as it is: the JSON download of the run.",
        ),
        "results:usage:no-such-file": (
            404,
            "The run left no file {name}.",
            "Its comparison page lists the files that it left; a package comes only with a faster result.",
        ),
        "results:usage:two-runs": (
            400,
            "A comparison needs two to {most} different runs, not {count}.",
            "Name them by their ids: ?runs=ID,ID.",
        ),
        "results:usage:not-measurable": (
            409,
            "These runs cannot be measured side by side: {reason}.",
            "Choose two runs of different versions whose files are still there.",
        ),
    }
)
