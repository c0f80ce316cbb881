"""Keeps the document of every run that left one, and what it says of predicted gains as rows."""

from __future__ import annotations

from fuseworks.results.gains import checked_gains_store
from fuseworks.results.services import result_store
from fuseworks.runs.finished import when_finished
from fuseworks.runs.models import Run
from optimizer.result import Result


@when_finished
def keep_the_document(run: Run, result: Result) -> None:
    result_store(run=run, result=result)


@when_finished
def keep_predicted_gains(run: Run, result: Result) -> None:
    checked_gains_store(run=run, result=result)
