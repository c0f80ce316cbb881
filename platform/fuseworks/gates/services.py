"""Settles the check of a gate, once, when its run has ended. Called by the worker's side, in that transaction."""

from __future__ import annotations

from typing import Any

from fuseworks.gates.models import MAX_REASON, GateCheck, Outcome
from fuseworks.gates.rules import outcome_of, outcome_without_figures
from fuseworks.results.sides import sides
from fuseworks.runs import scrub
from fuseworks.runs.models import Run, Status
from optimizer.result import Result


def gate_settle(*, run: Run, result: Result | None) -> None:
    """`result` is None when the run left none. Does nothing for a run without a gate or with a settled one."""
    check = GateCheck.objects.filter(run=run, outcome=Outcome.PENDING).first()
    if check is None:
        return
    GateCheck.objects.filter(pk=check.pk).update(**_settled(check, run, result))


def _settled(check: GateCheck, run: Run, result: Result | None) -> dict[str, Any]:
    seen = sides(run, result) if result is not None and run.status == Status.SUCCEEDED else None
    if seen is None:
        return {"outcome": outcome_without_figures(result)}
    ratio, untold = seen.latency_ratio, seen.comparison.reason
    return {
        "outcome": outcome_of(ratio.low, ratio.high, check.max_latency_ratio, has_verdict=untold is None),
        "reason": scrub.text(untold or "", MAX_REASON),
        "latency_ratio": ratio.value,
        "latency_ratio_low": ratio.low,
        "latency_ratio_high": ratio.high,
    }
