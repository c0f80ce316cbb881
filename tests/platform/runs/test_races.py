"""Two connections at once, on the real PostgreSQL: one of them is first, and the other one learns it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, transaction

from fuseworks.core.errors import PlatformError
from fuseworks.runs import selectors
from fuseworks.runs.models import Attempt, AttemptState, Flip, Run, RunEvent
from fuseworks.runs.services import (
    attempt_claim,
    attempt_heartbeat,
    attempt_open,
    events_append,
    reap,
    run_finish,
)
from tests.platform.factories import result_document
from tests.platform.runs.steps import NOW, at, claimed, event, opened, queued

pytestmark = pytest.mark.django_db(transaction=True)
BOTH = 2
WAIT_S = 30


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Each call in a thread and a connection of its own, begun together; its result, or the error's id."""
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        try:
            start.wait(WAIT_S)
            return call()
        except PlatformError as error:
            return error.id
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result(WAIT_S) for future in [pool.submit(run, call) for call in calls]]


def test_of_two_claims_of_one_message_one_wins() -> None:
    for _ in range(5):
        run = queued()
        pk = opened(run).attempt.pk

        def claim(worker: str, pk: Any = pk) -> str:
            return str(attempt_claim(attempt=Attempt.objects.get(pk=pk), worker=worker, now=at(1)).status)

        answers = at_once(lambda claim=claim: claim("one"), lambda claim=claim: claim("two"))
        assert sorted(answers) == ["running", "runs:usage:stale"]
        assert Flip.objects.filter(run=run).count() == 1


def test_two_dispatchers_open_one_attempt() -> None:
    for _ in range(5):
        run = queued()
        found = at_once(*[lambda run=run: attempt_open(run_id=run.pk, now=NOW)] * BOTH)
        assert sum(one is not None for one in found) == 1
        assert Attempt.objects.filter(run=run).count() == 1


def test_a_row_that_another_dispatcher_holds_is_skipped_without_waiting() -> None:
    run = queued()
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with transaction.atomic():
                Run.objects.select_for_update().get(pk=run.pk)
                held.set()
                assert done.wait(WAIT_S)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        holder = pool.submit(hold)
        assert held.wait(WAIT_S)
        try:
            assert attempt_open(run_id=run.pk, now=NOW) is None
        finally:
            done.set()
        holder.result(WAIT_S)
    assert attempt_open(run_id=run.pk, now=NOW) is not None


def test_two_answers_of_one_attempt_end_the_run_once() -> None:
    run = queued()
    pk = claimed(run).pk

    def finish(status: str) -> str:
        answer = run_finish(attempt=Attempt.objects.get(pk=pk), document=result_document(status=status), now=at(9))
        return str(answer.status)

    first, second = at_once(lambda: finish("succeeded"), lambda: finish("succeeded"))
    assert (first, second) == ("succeeded", "succeeded")
    run.refresh_from_db()
    assert run.worked_s == 9.0
    assert Flip.objects.filter(run=run, after="succeeded").count() == 1


def test_a_heartbeat_and_the_reaper_agree_on_who_was_first() -> None:
    for _ in range(5):
        run = queued()
        pk = claimed(run).pk
        beat, reaped = at_once(
            lambda pk=pk: attempt_heartbeat(attempt=Attempt.objects.get(pk=pk), now=at(61)), lambda: reap(now=at(61))
        )
        run.refresh_from_db()
        attempt = Attempt.objects.get(pk=pk)
        if beat == "runs:usage:stale":
            assert (reaped.expired, run.status, attempt.state) == (1, "queued", AttemptState.EXPIRED)
        else:
            assert (reaped.expired, run.status, attempt.state) == (0, "running", AttemptState.CLAIMED)
        Run.objects.all().delete()


def test_an_answer_and_the_reaper_end_the_run_once() -> None:
    for _ in range(5):
        run = queued(max_attempts=1)
        pk = claimed(run).pk

        def finish(pk: Any = pk) -> str:
            attempt = Attempt.objects.get(pk=pk)
            return str(run_finish(attempt=attempt, document=result_document(), now=at(61)).status)

        answer, _ = at_once(finish, lambda: reap(now=at(61)))
        run.refresh_from_db()
        assert run.status == ("errored" if answer == "runs:usage:stale" else "succeeded")
        assert Flip.objects.filter(run=run, before="running").count() == 1
        Run.objects.all().delete()


def test_a_reader_who_waits_lets_the_connection_go_and_gets_the_event() -> None:
    run = queued()
    pk = claimed(run).pk
    waits, posted = threading.Event(), threading.Event()

    def sleep(seconds: float) -> None:
        assert connection.connection is None
        waits.set()
        assert posted.wait(WAIT_S)

    def read() -> list[str]:
        found = selectors.events_awaited(run=Run.objects.get(pk=run.pk), after=0, wait_s=WAIT_S, sleep=sleep)
        return [one.message for one in found.events]

    def post() -> int:
        assert waits.wait(WAIT_S)
        number = events_append(attempt=Attempt.objects.get(pk=pk), first=0, events=[event(message="at last")])
        posted.set()
        return number

    assert at_once(read, post) == [["at last"], 1]


def test_a_post_of_events_doubled_at_once_is_kept_once() -> None:
    run = queued()
    pk = claimed(run).pk

    def post() -> int:
        return events_append(attempt=Attempt.objects.get(pk=pk), first=0, events=[event(), event("verifying")])

    assert at_once(post, post) == [2, 2]
    assert list(RunEvent.objects.filter(run=run).order_by("number").values_list("number", flat=True)) == [0, 1]
