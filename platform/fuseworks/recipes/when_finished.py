"""A replay that ended becomes evidence of its recipe."""

from __future__ import annotations

from fuseworks.recipes.services import evidence_record
from fuseworks.runs.finished import when_finished
from fuseworks.runs.models import Run
from optimizer.result import Result


@when_finished
def recipes_learn(run: Run, result: Result) -> None:
    evidence_record(run=run, result=result)
