"""How a run and an attempt end, or go back to the queue: shared by the worker's answers, the reaper and cancelling.

Everything here expects a transaction in which `locked` was called.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F

from fuseworks.core.errors import PlatformError
from fuseworks.runs import bell, scrub
from fuseworks.runs.finished import ended_functions
from fuseworks.runs.models import Artifact, Attempt, AttemptState, Run, Status
from fuseworks.runs.services.files import files_drop
from fuseworks.runs.transitions import run_transition

log = logging.getLogger(__name__)

MAX_SUMMARY = 500
CLOCK = ("works", "clock_at", "worked_s")


def stale(attempt: Attempt) -> PlatformError:
    return PlatformError("runs:usage:stale", attempt=attempt.number)


def locked(attempt: Attempt) -> Run:
    """The attempt's run with its row locked; the attempt itself is read anew."""
    run: Run = Run.objects.select_for_update(no_key=True).get(pk=attempt.run_id)
    attempt.refresh_from_db()
    attempt.run = run
    return run


def working(attempt: Attempt) -> Run:
    """Like `locked`, for a worker that is at it. Raises `runs:usage:stale` when the attempt is not, or no longer."""
    run = locked(attempt)
    if not (attempt.state == AttemptState.CLAIMED and run.status == Status.RUNNING and run.attempt == attempt.number):
        raise stale(attempt)
    return run


def worked_s(attempt: Attempt, until: datetime) -> float:
    """Seconds that its clock has counted until then; the host's time set back counts as nothing."""
    if not attempt.works or attempt.clock_at is None:
        return attempt.worked_s
    return attempt.worked_s + max(0.0, (until - attempt.clock_at).total_seconds())


def set_clock(attempt: Attempt, works: bool, now: datetime) -> None:
    """Starts or stops it; the caller saves CLOCK."""
    if attempt.works != works or attempt.clock_at is None:
        attempt.worked_s = worked_s(attempt, now)
        attempt.works, attempt.clock_at = works, now


def last_heartbeat(attempt: Attempt) -> datetime:
    """When a silent worker was last known to work: time that it may have been dead is not the run's."""
    return attempt.lease_until - timedelta(seconds=settings.LEASE_S)


def claims(run: Run) -> int:
    """Attempts that a worker began. One that nobody claimed was lost on the way, and one whose worker was told to end
    (a deployment) ended for no fault of the run: neither costs it anything."""
    begun = Attempt.objects.filter(run=run, claimed_at__isnull=False)
    return begun.exclude(state=AttemptState.STOPPED).count()


def close(attempt: Attempt, state: AttemptState, *, now: datetime, reason: str = "") -> None:
    attempt.state, attempt.ended_at, attempt.reason = state, now, scrub.text(reason, 500)
    attempt.save(update_fields=["state", "ended_at", "reason", "updated_at"])


def end(
    run: Run,
    to: Status,
    *,
    now: datetime,
    problem: PlatformError | dict[str, Any] | None = None,
    summary: str = "",
    worked: float = 0.0,
    reason: str = "",
) -> None:
    """The run's end. `run` is read anew; what other apps do at an end is left to the caller. Files of earlier attempts,
    which are nobody's answer, go."""
    document = problem.document() if isinstance(problem, PlatformError) else problem
    if isinstance(problem, PlatformError):
        summary = summary or problem.message
    run_transition(
        run_id=run.pk,
        expected=Status(run.status),
        to=to,
        attempt=run.attempt,
        reason=scrub.text(reason, 500),
        ended_at=now,
        problem=scrub.storable(document),
        summary=scrub.text(summary, MAX_SUMMARY),
        worked_s=F("worked_s") + worked,
    )
    run.refresh_from_db()
    files_drop(Artifact.objects.filter(run=run).exclude(attempt=run.attempt))
    bell.ring()


def end_without_result(run: Run, to: Status, **fields: Any) -> None:
    """An end that no result document tells of. A function of another app that fails is logged and does not hold the run
    back: there is nobody who could send the end again."""
    end(run, to, **fields)
    for function in ended_functions():
        try:
            with transaction.atomic():
                function(run)
        except (OperationalError, InterfaceError):  # the database itself: nothing here was stored
            raise
        except Exception:
            log.exception("run %s: %s failed", run.pk, function.__qualname__)


def end_queued(run: Run, to: Status, *, now: datetime, void: str, **fields: Any) -> None:
    """A run that nobody began. `void`: why a message that is on its way to a worker counts no more."""
    for sent in Attempt.objects.filter(run=run, state=AttemptState.SENT):
        close(sent, AttemptState.ENDED, now=now, reason=void)
    end_without_result(run, to, now=now, **fields)


def requeue_or_end(run: Run, *, now: datetime, worked: float, reason: str, problem: PlatformError) -> None:
    """After an attempt that brought no answer: the queue while attempts are left, else `errored` with `problem`."""
    if run.cancel_requested_at is not None:
        end_without_result(run, Status.CANCELLED, now=now, worked=worked, reason=reason)
    elif claims(run) >= run.max_attempts:
        end_without_result(run, Status.ERRORED, now=now, worked=worked, reason=reason, problem=problem)
    else:
        run_transition(
            run_id=run.pk,
            expected=Status.RUNNING,
            to=Status.QUEUED,
            attempt=run.attempt,
            reason=scrub.text(reason, 500),
            worked_s=F("worked_s") + worked,
            stage="",
            candidate="",
            progress={},
        )
        run.refresh_from_db()
        bell.ring()
