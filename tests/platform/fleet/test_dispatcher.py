"""The dispatcher's loop in a thread, on the real PostgreSQL: leadership, waking, trouble, and its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from fuseworks.fleet import dispatcher as module
from fuseworks.fleet.dispatcher import Dispatcher, Pause
from fuseworks.fleet.leadership import is_led
from fuseworks.fleet.sender import BrokerDown
from fuseworks.runs import bell
from fuseworks.runs.models import Attempt
from tests.platform.runs.steps import claimed, queued, worker_row
from workers.messages import RunMessage

pytestmark = pytest.mark.django_db(transaction=True)
WAIT_S = 30.0


class Watched:
    """A dispatcher in a thread, with events for what it does."""

    def __init__(self, send: Callable[[RunMessage, str], None] | None = None, clean: Any = lambda: None) -> None:
        self.messages: list[RunMessage] = []
        self.led: list[bool] = []
        self.changed = threading.Condition()
        self.dispatcher = Dispatcher(send or self._keep, clean, on_lead=self._lead)
        self.thread = threading.Thread(target=self.dispatcher.run, daemon=True)

    def _keep(self, message: RunMessage, target: str) -> None:
        with self.changed:
            self.messages.append(message)
            self.changed.notify_all()

    def _lead(self, leads: bool) -> None:
        with self.changed:
            self.led.append(leads)
            self.changed.notify_all()

    def until(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, WAIT_S)

    def end(self) -> None:
        self.dispatcher.stop()
        self.thread.join(WAIT_S)
        assert not self.thread.is_alive()


@contextmanager
def running(*args: Any, **options: Any) -> Iterator[Watched]:
    watched = Watched(*args, **options)
    watched.thread.start()
    try:
        yield watched
    finally:
        watched.end()


def test_it_sends_what_waits_and_is_woken_for_what_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAKE_AT_LEAST_S", WAIT_S)  # only the bell can wake it within the test's time
    worker_row("a", seen=timezone.now())
    worker_row("b", seen=timezone.now())
    first = queued()
    with running() as watched:
        watched.until(lambda: len(watched.messages) == 1)
        second = queued()
        bell.ring()
        watched.until(lambda: len(watched.messages) == 2)
        assert [m.run_id for m in watched.messages] == [first.pk, second.pk]
        watched.dispatcher.stop()
        bell.ring()


def test_without_a_bell_it_looks_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAKE_AT_LEAST_S", 0.05)
    with running() as watched:
        watched.until(lambda: watched.led == [True])
        worker_row("a", seen=timezone.now())
        queued()
        watched.until(lambda: len(watched.messages) == 1)


def test_one_leads_another_stands_by_and_takes_over() -> None:
    assert not is_led()
    with running() as first:
        first.until(lambda: first.led == [True])
        assert is_led()
        with running() as second:
            second.until(lambda: second.led == [False])
            first.end()
            second.until(lambda: second.led == [False, True])
            assert is_led()
    deadline = time.monotonic() + WAIT_S
    while is_led():  # the server notices a moment later that a session is closed
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_broker_that_is_down_is_tried_again_and_the_run_gets_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAKE_AT_LEAST_S", 0.05)
    worker_row("a", seen=timezone.now())
    run = queued()
    failures = iter(range(2))
    watched = Watched()

    def flaky(message: RunMessage, target: str) -> None:
        if next(failures, None) is not None:
            raise BrokerDown("connection refused")
        watched._keep(message, target)

    watched.dispatcher._send = flaky
    watched.dispatcher._broker = Pause(first_s=0.01)
    watched.thread.start()
    try:
        watched.until(lambda: len(watched.messages) == 1)
    finally:
        watched.end()
    states = list(Attempt.objects.filter(run=run).order_by("number").values_list("state", flat=True))
    assert states == ["unclaimed", "unclaimed", "sent"]


def test_it_survives_that_the_database_ends_all_its_sessions() -> None:
    worker_row("a", seen=timezone.now())
    with running() as watched:
        watched.dispatcher._database = Pause(first_s=0.05)
        watched.until(lambda: watched.led == [True])
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        watched.until(lambda: watched.led[-2:] == [True, True])
        run = queued()
        bell.ring()
        watched.until(lambda: [m.run_id for m in watched.messages] == [run.pk])


def test_a_pass_that_fails_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAKE_AT_LEAST_S", 0.05)
    worker_row("a", seen=timezone.now())
    queued()
    original, failures = module.dispatch, iter(range(1))

    def failing(**options: Any) -> int:
        if next(failures, None) is not None:
            raise RuntimeError("a fault of ours")
        return original(**options)

    monkeypatch.setattr(module, "dispatch", failing)
    with running() as watched:
        watched.until(lambda: len(watched.messages) == 1)


def test_leases_are_watched_and_runs_sent_while_it_cleans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAKE_AT_LEAST_S", 0.05)
    worker_row("a", seen=timezone.now())
    silent = claimed(queued(max_attempts=1), timezone.now() - timedelta(hours=1), worker="silent")
    waits = queued()
    begun, may_end = threading.Event(), threading.Event()

    def long_clean() -> None:
        begun.set()
        assert connection.connection is None  # nobody else's
        assert may_end.wait(WAIT_S)

    with running(clean=long_clean) as watched:
        try:
            assert begun.wait(WAIT_S)
            watched.until(lambda: waits.pk in [m.run_id for m in watched.messages])
            silent.refresh_from_db()
            assert silent.state == "expired"
        finally:
            may_end.set()


def test_it_cleans_once_a_day_and_a_failure_is_not_tried_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAKE_AT_LEAST_S", 0.01)
    cleaned: list[float] = []

    def clean() -> None:
        cleaned.append(time.monotonic())
        raise RuntimeError("a fault of ours")

    passes: list[int] = []
    original = module.reap
    with running(clean=clean) as watched:
        watched.until(lambda: watched.led == [True])

        def counted() -> Any:
            with watched.changed:
                passes.append(1)
                watched.changed.notify_all()
            return original()

        monkeypatch.setattr(module, "reap", counted)
        watched.until(lambda: len(passes) >= 5)
    assert len(cleaned) == 1


def test_a_pause_doubles_to_half_a_minute_and_begins_anew() -> None:
    pause = Pause(first_s=8.0)
    assert pause.is_over()
    assert [pause.failed() for _ in range(4)] == [8.0, 16.0, 30.0, 30.0]
    assert not pause.is_over()
    pause.reset()
    assert pause.is_over()
    assert pause.failed() == 8.0
