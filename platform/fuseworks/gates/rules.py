"""The rule of a gate, and the exit code that a pipeline gets.

With [l, u] the interval of latency_ratio = the version's time / the time of the version before (`results.sides` says
how it follows from a comparison): `pass` when u <= limit, `fail` when l > limit, else `cannot_tell`.

A comparison that says why its interval carries no verdict (too few pairs, held back as too good to be true) lets
nothing pass; what is above the limit even so fails.

It cannot tell either when the version before cannot be packaged any more by the recipe of its own run: there is nothing
to compare with, and the new version is not to blame. A new version that the recipe does not fit is (`no_result`, 4).
"""

from __future__ import annotations

from fuseworks.gates.models import GateCheck, Outcome
from optimizer.errors import EXIT_OF_STATUS, EXIT_OURS
from optimizer.result import Result

PASSED, TOO_SLOW, CANNOT_TELL = 0, 1, 2
BEFORE_AT_FAULT = "compare:user:before-not-packaged"


def outcome_of(low: float, high: float, limit: float, *, has_verdict: bool = True) -> Outcome:
    if high <= limit and has_verdict:
        return Outcome.PASS
    if low > limit:
        return Outcome.FAIL
    return Outcome.CANNOT_TELL


def outcome_without_figures(result: Result | None) -> Outcome:
    """Of a run that compared nothing; `result` is None when it left none."""
    problem = result.problem if result is not None else None
    return Outcome.CANNOT_TELL if problem is not None and problem.id == BEFORE_AT_FAULT else Outcome.NO_RESULT


def exit_code(check: GateCheck) -> int | None:
    """None while the run goes on. Without a result the run's status says whose fault it is."""
    if check.outcome == Outcome.PENDING:
        return None
    if check.outcome == Outcome.NO_RESULT:
        return EXIT_OF_STATUS[check.run.status] or EXIT_OURS  # a success without figures is no pass
    return {Outcome.PASS: PASSED, Outcome.FAIL: TOO_SLOW, Outcome.CANNOT_TELL: CANNOT_TELL}[Outcome(check.outcome)]
