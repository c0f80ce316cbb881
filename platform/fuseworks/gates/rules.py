"""The rule of a gate, and the exit code that a pipeline gets.

With [l, u] the interval of latency_ratio = the version's time / the time of the version before (`results.sides` says
how it follows from a comparison): `pass` when u <= limit, `fail` when l > limit, else `cannot_tell`.
"""

from __future__ import annotations

from fuseworks.gates.models import GateCheck, Outcome
from fuseworks.runs.models import Status

PASSED, TOO_SLOW, CANNOT_TELL, INFRASTRUCTURE, MODEL = 0, 1, 2, 3, 4


def outcome_of(low: float, high: float, limit: float) -> Outcome:
    if high <= limit:
        return Outcome.PASS
    if low > limit:
        return Outcome.FAIL
    return Outcome.CANNOT_TELL


def exit_code(check: GateCheck) -> int | None:
    """None while the run goes on. Without a result the run's status says whose fault it is."""
    if check.outcome == Outcome.PENDING:
        return None
    if check.outcome == Outcome.NO_RESULT:
        return MODEL if check.run.status == Status.FAILED else INFRASTRUCTURE
    return {Outcome.PASS: PASSED, Outcome.FAIL: TOO_SLOW, Outcome.CANNOT_TELL: CANNOT_TELL}[Outcome(check.outcome)]
