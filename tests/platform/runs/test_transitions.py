"""The one function that changes a run's status."""

from __future__ import annotations

import pytest

from fuseworks.runs.models import TERMINAL, Flip, Status
from fuseworks.runs.transitions import StaleTransition, run_transition
from tests.platform.runs.steps import queued

pytestmark = pytest.mark.django_db


def test_a_change_is_remembered_with_its_attempt_and_reason() -> None:
    run = queued(attempt=2)
    run_transition(run_id=run.pk, expected=Status.QUEUED, to=Status.RUNNING, attempt=2, reason="claimed by a")
    run.refresh_from_db()
    assert run.status == "running"
    flip = Flip.objects.get(run=run)
    assert (flip.attempt, flip.before, flip.after, flip.reason) == (2, "queued", "running", "claimed by a")


@pytest.mark.parametrize(("status", "attempt"), [(Status.QUEUED, 1), (Status.RUNNING, 2)])
def test_it_refuses_when_the_run_is_elsewhere_or_the_attempt_is_old(status: Status, attempt: int) -> None:
    run = queued(attempt=2)
    with pytest.raises(StaleTransition):
        run_transition(run_id=run.pk, expected=status, to=Status.CANCELLED, attempt=attempt)
    run.refresh_from_db()
    assert run.status == "queued"
    assert not Flip.objects.filter(run=run).exists()


@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_nothing_leads_out_of_an_end(status: Status) -> None:
    run = queued(status=status)
    for to in Status:
        with pytest.raises(ValueError):
            run_transition(run_id=run.pk, expected=status, to=to, attempt=1)


def test_a_queued_run_cannot_succeed() -> None:
    with pytest.raises(ValueError):
        run_transition(run_id=queued().pk, expected=Status.QUEUED, to=Status.SUCCEEDED, attempt=0)


def test_an_end_has_its_time() -> None:
    run = queued()
    run_transition(run_id=run.pk, expected=Status.QUEUED, to=Status.CANCELLED, attempt=0)
    run.refresh_from_db()
    assert run.ended_at is not None
