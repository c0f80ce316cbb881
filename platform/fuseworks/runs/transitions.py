"""The one function that changes a run's status: a conditional UPDATE, and the row that remembers it."""

from __future__ import annotations

import uuid
from typing import Any

from django.db import transaction
from django.utils import timezone

from fuseworks.runs.models import TERMINAL, Flip, Run, Status

ALLOWED: dict[Status, frozenset[Status]] = {
    # `failed`: its version's inspection was
    Status.QUEUED: frozenset({Status.RUNNING, Status.FAILED, Status.CANCELLED, Status.ERRORED}),
    # back to the queue when its worker died and attempts are left
    Status.RUNNING: TERMINAL | {Status.QUEUED},
}


class StaleTransition(Exception):
    """Somebody else was first: the run is no longer as it was expected, or the attempt is not the current one."""


def run_transition(
    *, run_id: uuid.UUID, expected: Status, to: Status, attempt: int, reason: str = "", **fields: Any
) -> None:
    """Changes `status` when the run is in `expected` and `attempt` is still its fencing counter; sets `fields` with it.

    Raises StaleTransition when no row changed, ValueError for a change that no run may make.
    """
    if to not in ALLOWED.get(expected, frozenset()):
        raise ValueError(f"no run goes from {expected} to {to}")
    if to in TERMINAL:
        fields.setdefault("ended_at", timezone.now())
    with transaction.atomic():
        changed = Run.objects.filter(pk=run_id, status=expected, attempt=attempt).update(
            status=to, updated_at=timezone.now(), **fields
        )
        if changed != 1:
            raise StaleTransition(f"run {run_id} is not {expected} in attempt {attempt}")
        Flip.objects.create(
            run_id=run_id, attempt=fields.get("attempt", attempt), before=expected, after=to, reason=reason
        )
