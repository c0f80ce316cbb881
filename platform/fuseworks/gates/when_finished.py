"""Settles a run's gate when the run has ended, whether it left a result or not."""

from __future__ import annotations

from fuseworks.gates.services import gate_settle
from fuseworks.runs.finished import when_ended, when_finished
from fuseworks.runs.models import Run
from optimizer.result import Result


@when_finished
def settle(run: Run, result: Result) -> None:
    gate_settle(run=run, result=result)


@when_ended
def settle_without_result(run: Run) -> None:
    gate_settle(run=run, result=None)
