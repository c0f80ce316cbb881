"""Which workers serve a run: those of its target. A prediction is for a GPU that is not there and runs nothing on it,
so those of the CPU serve it, whatever its target is."""

from __future__ import annotations

from typing import Any

from django.db.models import Case, CharField, F, Value, When

from fuseworks.runs.models import Purpose, Run

PREDICTS = "cpu"


def served_by(run: Run) -> str:
    """The target whose workers take it, and whose queue it waits in."""
    return PREDICTS if run.purpose == Purpose.EXPLAIN else run.target


def queue(prefix: str = "") -> Case:
    """The same for a query: `prefix` leads to the run."""
    predicted: Any = {f"{prefix}purpose": Purpose.EXPLAIN}
    return Case(When(**predicted, then=Value(PREDICTS)), default=F(f"{prefix}target"), output_field=CharField())
