"""What comes by message never ends the worker, and a message that makes no sense is dropped without its values."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workers.fake_platform import RUN, TOKEN
from workers import tasks
from workers.api import Stale
from workers.celery_app import app, configure
from workers.duty import duty
from workers.http import Unreachable
from workers.messages import queue_of
from workers.settings import Settings

GOOD: dict[str, Any] = {"run_id": RUN, "attempt": 2, "api": "https://fuseworks.example/api/v1/", "token": TOKEN}


@pytest.fixture
def worked(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> list[Any]:
    """What `work` was called with; an exception in it is raised by the next call."""
    calls: list[Any] = []
    duty.take(settings, lambda: None)

    def work(message: Any, settings: Settings, **_: Any) -> None:
        if calls and isinstance(calls[-1], Exception):
            raise calls.pop()
        calls.append(message)

    monkeypatch.setattr(tasks, "work", work)
    return calls


def test_a_message_is_worked_once(worked: list[Any]) -> None:
    tasks.run(**GOOD)
    assert [(str(m.run_id), m.attempt) for m in worked] == [(RUN, 2)]


def test_a_field_of_a_later_version_is_logged_and_the_run_worked(
    worked: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    tasks.run(**GOOD, priority=7)
    assert len(worked) == 1
    assert "priority" in caplog.text and TOKEN not in caplog.text


@pytest.mark.parametrize(
    ("change", "named"),
    [({"attempt": 0}, "attempt"), ({"run_id": "42"}, "run_id"), ({"token": "secret-but-short"}, "token")],
)
def test_a_message_that_makes_no_sense_is_dropped_and_its_values_are_not_logged(
    worked: list[Any], caplog: pytest.LogCaptureFixture, change: dict[str, Any], named: str
) -> None:
    tasks.run(**{**GOOD, **change})
    assert worked == []
    assert named in caplog.text and TOKEN not in caplog.text and "secret-but-short" not in caplog.text


def test_arguments_without_names_are_dropped(worked: list[Any], caplog: pytest.LogCaptureFixture) -> None:
    tasks.run(RUN, 2, TOKEN)
    assert worked == []
    assert "3 arguments" in caplog.text and TOKEN not in caplog.text


@pytest.mark.parametrize("error", [Stale("over"), Unreachable("silent"), ZeroDivisionError("oops")])
def test_nothing_that_work_raises_ends_the_worker_and_all_is_logged(
    worked: list[Any], caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    caplog.set_level("INFO")
    worked.append(error)
    tasks.run(**GOOD)
    assert RUN in caplog.text


def test_the_task_and_its_queue_have_the_names_that_the_dispatcher_uses(settings: Settings) -> None:
    from fuseworks.fleet import sender

    assert sender.TASK in app.tasks
    assert [queue_of(target) for target in ("cpu", "cuda:sm_90")] == [
        sender.queue_of(target) for target in ("cpu", "cuda:sm_90")
    ]


def test_the_app_works_in_its_own_process_and_takes_nothing_but_json(settings: Settings) -> None:
    conf = configure(settings).conf
    assert (conf.worker_pool, conf.worker_concurrency, conf.worker_prefetch_multiplier) == ("solo", 1, 0)
    assert conf.task_acks_late is False and conf.task_ignore_result is True
    assert conf.accept_content == ["json"]
    assert conf.task_default_queue == "fuseworks.cpu"
