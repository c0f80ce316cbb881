"""The reaper: ends what fell silent. Called by the dispatcher at least once a second; safe to call from several.

- A message that nobody claimed in time: the attempt is `unclaimed`, the run is sent again, later each time.
- A lease that ran out: the attempt is `expired`; the run goes back to the queue while attempts are left.
- A worker that is asked to cancel, or is over the time limit, and still beats: the run is ended without it.
- A worker that had its result and cannot hand it in for HAND_IN_WITHIN: as if it had fallen silent, with the reason.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction
from django.utils import timezone

from fuseworks.core.errors import PlatformError
from fuseworks.runs.models import Attempt, AttemptState, Run, Status
from fuseworks.runs.services import ending
from fuseworks.runs.services.attempts import attempt_unclaimed

log = logging.getLogger(__name__)

HAND_IN_WITHIN = timedelta(hours=2)  # a package may have many gigabytes


@dataclass
class Reaped:
    """How many attempts ended in which way."""

    unclaimed: int = 0
    expired: int = 0
    cancelled: int = 0
    timed_out: int = 0


def reap(*, now: datetime | None = None) -> Reaped:
    """One pass. Each attempt in a transaction of its own, read anew under its run's lock: a heartbeat that comes in
    between wins. One that fails is logged, and the next pass finds it again."""
    now = now or timezone.now()
    reaped = Reaped()
    sent = Attempt.objects.filter(state=AttemptState.SENT, lease_until__lt=now)
    for attempt in sent.order_by("lease_until"):
        if _carefully(attempt, lambda a: _unclaim(a, now)):
            reaped.unclaimed += 1
    claimed = Attempt.objects.filter(state=AttemptState.CLAIMED)
    for attempt in claimed.filter(lease_until__lt=now).order_by("lease_until"):
        if _carefully(attempt, lambda a: _expire(a, now)):
            reaped.expired += 1
    for attempt in claimed.select_related("run"):  # as many as workers are at work: few
        run = attempt.run
        deaf = run.cancel_requested_at is not None and run.cancel_requested_at + grace() < now
        endless = ending.worked_s(attempt, now - grace()) > run.time_limit_s
        if deaf and _carefully(attempt, lambda a: _cancel(a, now)):
            reaped.cancelled += 1
        elif endless and not deaf and _carefully(attempt, lambda a: _time_out(a, now)):
            reaped.timed_out += 1
        elif _is_stuck(attempt, now) and not deaf and _carefully(attempt, lambda a: _unstick(a, now)):
            reaped.expired += 1
    return reaped


def grace() -> timedelta:
    """How long a worker that beats may take to obey. It ends the work and sends what it has, which is worth waiting
    for."""
    return timedelta(seconds=2 * settings.LEASE_S)


def _carefully(attempt: Attempt, step: Callable[[Attempt], bool]) -> bool:
    try:
        return step(attempt)
    except (OperationalError, InterfaceError):  # the database is away: the dispatcher waits for it
        raise
    except Exception:
        log.exception("attempt %s of run %s could not be reaped", attempt.number, attempt.run_id)
        return False


def _unclaim(attempt: Attempt, now: datetime) -> bool:
    attempt_unclaimed(attempt=attempt, now=now)
    return attempt.state == AttemptState.UNCLAIMED


def _expire(attempt: Attempt, now: datetime) -> bool:
    with transaction.atomic():
        run = ending.locked(attempt)
        if not _is_current(run, attempt) or attempt.lease_until >= now:
            return False
        _lose(run, attempt, now, f"no heartbeat for {settings.LEASE_S} s", "runs:ours:worker-lost")
    return True


def _lose(run: Run, attempt: Attempt, now: datetime, reason: str, problem_id: str, **context: Any) -> None:
    ending.close(attempt, AttemptState.EXPIRED, now=now, reason=reason)
    worker = attempt.worker.name if attempt.worker else "not known"
    problem = PlatformError(problem_id, claims=ending.claims(run), worker=worker, **context)
    worked = ending.worked_s(attempt, ending.last_heartbeat(attempt))
    ending.requeue_or_end(run, now=now, worked=worked, reason=reason, problem=problem)


def _is_stuck(attempt: Attempt, now: datetime) -> bool:
    """Its clock was stopped after work, long ago. One that has not begun waits for its device, which may take hours."""
    if attempt.works or attempt.worked_s == 0 or attempt.clock_at is None:
        return False
    return attempt.clock_at + HAND_IN_WITHIN < now


def _unstick(attempt: Attempt, now: datetime) -> bool:
    with transaction.atomic():
        run = ending.locked(attempt)
        if not _is_current(run, attempt) or not _is_stuck(attempt, now):
            return False
        hours = HAND_IN_WITHIN // timedelta(hours=1)
        _lose(run, attempt, now, "its worker did not hand in the result", "runs:ours:not-handed-in", hours=hours)
    return True


def _cancel(attempt: Attempt, now: datetime) -> bool:
    with transaction.atomic():
        run = ending.locked(attempt)
        if not _is_current(run, attempt) or run.cancel_requested_at is None:
            return False
        reason = "cancelled; its worker did not obey"
        ending.close(attempt, AttemptState.EXPIRED, now=now, reason=reason)
        worked = ending.worked_s(attempt, now)
        ending.end_without_result(run, Status.CANCELLED, now=now, worked=worked, reason=reason)
    return True


def _time_out(attempt: Attempt, now: datetime) -> bool:
    with transaction.atomic():
        run = ending.locked(attempt)
        worked = ending.worked_s(attempt, now)
        if not _is_current(run, attempt) or worked < run.time_limit_s:
            return False
        reason = "over its time limit; its worker did not end it"
        ending.close(attempt, AttemptState.EXPIRED, now=now, reason=reason)
        problem = PlatformError("runs:ours:timed-out", limit_s=round(run.time_limit_s))
        ending.end_without_result(run, Status.TIMED_OUT, now=now, worked=worked, reason=reason, problem=problem)
    return True


def _is_current(run: Run, attempt: Attempt) -> bool:
    """An open attempt of a run that is over would be a fault of ours: it is left for a person to find."""
    return attempt.state == AttemptState.CLAIMED and run.status == Status.RUNNING and run.attempt == attempt.number
