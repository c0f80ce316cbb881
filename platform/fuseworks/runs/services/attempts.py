"""Attempts: opened by the dispatcher, claimed, kept alive and given up by workers.

The fencing counter `run.attempt` rises with each attempt that is sent, while the run stays `queued`; the claim is the
conditional UPDATE from `queued` to `running` in that attempt. A message that was lost is sent again under the next
number: the counter rises, and only attempts that were claimed count against `max_attempts` (`ending.claims`). One that
nobody takes up again and again is sent ever more rarely, for what is amiss is the workers' link to the broker; of its
attempts the last are kept.
"""

from __future__ import annotations

import secrets
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from pydantic import HttpUrl, SecretStr

from fuseworks.accounts.authentication import token_sha256
from fuseworks.core.discovery import API
from fuseworks.core.errors import PlatformError
from fuseworks.fleet.models import Worker
from fuseworks.runs import bell
from fuseworks.runs.models import OPEN, Attempt, AttemptState, Run, Status
from fuseworks.runs.services import ending
from fuseworks.runs.transitions import StaleTransition, run_transition
from workers.messages import RunMessage

UNCLAIMED = "no worker claimed it in time"
IN_VAIN = 3  # messages in a row that nobody took up: chance no more
FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=1), timedelta(minutes=15)
UNCLAIMED_KEPT = 10  # of one run; the counter and `Run.unclaimed` remember the others


@dataclass(frozen=True)
class Opened:
    """An attempt that is stored, and the message that a worker must get. The token is nowhere else."""

    attempt: Attempt
    message: RunMessage


@dataclass(frozen=True)
class Beat:
    """What a heartbeat is answered."""

    cancel: bool
    time_left_s: float


def api_address() -> str:
    """Where workers reach the API; the addresses of the worker's endpoints are relative to it."""
    return f"{settings.WORKER_API_URL.rstrip('/')}/{API}"


def attempt_open(*, run_id: uuid.UUID, now: datetime | None = None) -> Opened | None:
    """The next attempt of a queued run, to be sent as soon as the transaction is over.

    None when the run is not waiting any more, or when another process has its row at this moment.
    """
    now = now or timezone.now()
    with transaction.atomic():
        run = (
            Run.objects.select_for_update(skip_locked=True, no_key=True)
            .filter(pk=run_id, status=Status.QUEUED, cancel_requested_at=None)
            .first()
        )
        if run is None or Attempt.objects.filter(run=run, state__in=OPEN).exists():
            return None
        number = run.attempt + 1
        token = secrets.token_urlsafe(32)
        Run.objects.filter(pk=run.pk).update(attempt=number)
        attempt = Attempt.objects.create(
            run=run,
            number=number,
            token_sha256=token_sha256(token),
            sent_at=now,
            lease_until=now + timedelta(seconds=settings.CLAIM_WITHIN_S),
        )
    message = RunMessage(run_id=run.pk, attempt=number, api=HttpUrl(api_address()), token=SecretStr(token))
    return Opened(attempt, message)


def attempt_unsend(*, attempt: Attempt, reason: str, now: datetime | None = None) -> None:
    """The message could not be sent: the run waits for its next attempt."""
    with transaction.atomic():
        run = ending.locked(attempt)
        if attempt.state == AttemptState.SENT:
            _close_unclaimed(run, attempt, now or timezone.now(), reason)


def attempt_unclaimed(*, attempt: Attempt, now: datetime | None = None) -> None:
    """Nobody claimed it in time: the run waits for its next attempt, from the third time in a row on for a while."""
    now = now or timezone.now()
    with transaction.atomic():
        run = ending.locked(attempt)
        if attempt.state == AttemptState.SENT:
            count = run.unclaimed + 1
            Run.objects.filter(pk=run.pk).update(unclaimed=count, send_after=now + pause_after(count))
            _close_unclaimed(run, attempt, now, UNCLAIMED)


def pause_after(unclaimed: int) -> timedelta:
    """None after two, then doubling from FIRST_PAUSE to LONGEST_PAUSE."""
    if unclaimed < IN_VAIN:
        return timedelta(0)
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(unclaimed - IN_VAIN, 10))


def _close_unclaimed(run: Run, attempt: Attempt, now: datetime, reason: str) -> None:
    ending.close(attempt, AttemptState.UNCLAIMED, now=now, reason=reason)
    in_vain = Attempt.objects.filter(run=run, state=AttemptState.UNCLAIMED).order_by("-number")
    Attempt.objects.filter(pk__in=list(in_vain.values_list("pk", flat=True)[UNCLAIMED_KEPT:])).delete()
    bell.ring()


def attempt_claim(
    *, attempt: Attempt, worker: str, works: bool = True, key: str = "", now: datetime | None = None
) -> Run:
    """From `queued` to `running`, once. Not `works`: the worker waits for its device first, and the clock stands.

    `key` is drawn by who claims, for this claim alone: the worker whose answer was lost sends it again and gets the
    same answer, with its lease counted anew.

    Raises `runs:usage:stale` for everybody else who has the message, for a run that was cancelled meanwhile, and for
    one whose upload was deleted (which ends it).
    """
    now = now or timezone.now()
    with transaction.atomic():
        run = ending.locked(attempt)
        if key and attempt.state == AttemptState.CLAIMED and attempt.claim_key == key:
            run = ending.working(attempt)
            attempt.lease_until = now + timedelta(seconds=settings.LEASE_S)
            attempt.save(update_fields=["lease_until", "updated_at"])
            return run
        if attempt.state != AttemptState.SENT:
            raise ending.stale(attempt)
        gone = _gone(run)
        if gone is not None:
            ending.close(attempt, AttemptState.ENDED, now=now, reason="its upload was deleted")
            problem = PlatformError("runs:user:version-gone", version=gone)
            ending.end_without_result(run, Status.CANCELLED, now=now, problem=problem)
        else:
            _claim(run, attempt, worker, works, key, now)
    if gone is not None:
        raise ending.stale(attempt)
    return run


def _claim(run: Run, attempt: Attempt, worker: str, works: bool, key: str, now: datetime) -> None:
    try:
        run_transition(
            run_id=run.pk,
            expected=Status.QUEUED,
            to=Status.RUNNING,
            attempt=attempt.number,
            reason=f"claimed by {worker}"[:500],
            started_at=run.started_at or now,
            unclaimed=0,
            send_after=None,
        )
    except StaleTransition as error:
        raise ending.stale(attempt) from error
    attempt.worker = Worker.objects.filter(name=worker).first()
    attempt.state, attempt.claimed_at, attempt.claim_key = AttemptState.CLAIMED, now, key
    attempt.lease_until = now + timedelta(seconds=settings.LEASE_S)
    ending.set_clock(attempt, works, now)
    changed = ["worker", "state", "claimed_at", "claim_key", "lease_until", *ending.CLOCK, "updated_at"]
    attempt.save(update_fields=changed)
    run.refresh_from_db()


def _gone(run: Run) -> str | None:
    if run.version.deleted_at is not None:
        return str(run.version)
    if run.against is None or run.against.deleted_at is None:
        return None
    # the run's team need not know what the other team's is called
    is_own = run.against.model.team_id == run.team_id
    return str(run.against) if is_own else "the version to compare with"


def attempt_heartbeat(*, attempt: Attempt, works: bool = True, now: datetime | None = None) -> Beat:
    """Renews the lease; the attempt's clock runs while it `works`.

    Raises `runs:usage:stale`: the worker must then stop at once and post nothing more.
    """
    now = now or timezone.now()
    with transaction.atomic():
        run = ending.working(attempt)
        attempt.lease_until = now + timedelta(seconds=settings.LEASE_S)
        ending.set_clock(attempt, works, now)
        attempt.save(update_fields=["lease_until", *ending.CLOCK, "updated_at"])
    if attempt.worker_id is not None:
        Worker.objects.filter(pk=attempt.worker_id).update(last_seen_at=now)
    return Beat(cancel=run.cancel_requested_at is not None, time_left_s=time_left_s(run, attempt, now))


def time_left_s(run: Run, attempt: Attempt, now: datetime) -> float:
    """Of work in this attempt, never below zero: what was lost with an earlier one is no fault of the run's."""
    return max(0.0, run.time_limit_s - ending.worked_s(attempt, now))


def attempt_give_up(*, attempt: Attempt, reason: str, stopping: bool = False, now: datetime | None = None) -> Run:
    """The worker itself cannot do it (no disk, no sandbox): back to the queue while attempts are left, else errored.

    `stopping`: it was told to end, which counts against no run.
    """
    now = now or timezone.now()
    with transaction.atomic():
        run = ending.working(attempt)
        state = AttemptState.STOPPED if stopping else AttemptState.GAVE_UP
        ending.close(attempt, state, now=now, reason=reason)
        problem = PlatformError("runs:ours:gave-up", claims=ending.claims(run), reason=attempt.reason)
        worked = ending.worked_s(attempt, now)
        ending.requeue_or_end(
            run, now=now, worked=worked, reason=f"{state.label.lower()}: {attempt.reason}", problem=problem
        )
    return run
