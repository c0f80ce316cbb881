"""The worker's answer, and what other apps do with it."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError

from fuseworks.core.errors import PlatformError
from fuseworks.results.models import RunResult
from fuseworks.runs import finished
from fuseworks.runs.models import Flip, Run
from fuseworks.runs.services import attempt_give_up, run_finish
from optimizer.errors import FuseworksError
from optimizer.result import Problem, Result
from tests.platform.factories import result_document
from tests.platform.runs.steps import at, claimed, queued

pytestmark = pytest.mark.django_db


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What the functions of other apps were told, in order; only the test's own are registered."""
    heard: list[tuple[str, ...]] = []
    monkeypatch.setattr(finished, "_finished", {})
    monkeypatch.setattr(finished, "_ended", {})

    @finished.when_finished
    def hear(run: Run, result: Result) -> None:
        heard.append(("finished", run.status, result.summary))

    @finished.when_ended
    def hear_ended(run: Run) -> None:
        heard.append(("ended", run.status))

    return heard


@pytest.mark.parametrize("status", ["succeeded", "failed", "errored", "cancelled", "timed_out"])
def test_the_runs_status_is_the_documents(told: list[Any], status: str) -> None:
    run = queued()
    attempt = claimed(run)
    run_finish(attempt=attempt, document=result_document(status=status), now=at(30))
    run.refresh_from_db()
    attempt.refresh_from_db()
    assert (run.status, run.ended_at, run.worked_s, run.summary) == (status, at(30), 30.0, "2.00 times as fast")
    assert (attempt.state, attempt.ended_at) == ("ended", at(30))
    assert told == [("finished", status, "2.00 times as fast")]


def test_the_problem_keeps_the_users_own_line_and_the_remedy(told: list[Any]) -> None:
    error = FuseworksError("child:user:exception", place="model.py:41", type="ValueError", text="no")
    run = queued()
    problem = Problem.model_validate(error.document())
    run_finish(attempt=claimed(run), document=result_document(status="failed", problem=problem))
    run.refresh_from_db()
    assert (run.problem["id"], run.problem["place"]) == ("child:user:exception", "model.py:41")
    assert run.problem["remedy"] == error.remedy


def test_a_doubled_answer_changes_nothing(told: list[Any]) -> None:
    run = queued()
    attempt = claimed(run)
    run_finish(attempt=attempt, document=result_document(), now=at(30))
    run_finish(attempt=attempt, document=result_document(status="failed", summary="other"), now=at(60))
    run.refresh_from_db()
    assert (run.status, run.ended_at, run.worked_s) == ("succeeded", at(30), 30.0)
    assert len(told) == 1
    assert Flip.objects.filter(run=run, after="succeeded").count() == 1


def test_an_older_attempts_answer_is_stale_and_changes_nothing(told: list[Any]) -> None:
    run = queued()
    old = claimed(run)
    attempt_give_up(attempt=old, reason="stopping", now=at(1))
    claimed(run, at(20))
    with pytest.raises(PlatformError) as caught:
        run_finish(attempt=old, document=result_document(), now=at(21))
    assert caught.value.id == "runs:usage:stale"
    run.refresh_from_db()
    assert (run.status, told) == ("running", [])


def test_who_gave_up_cannot_finish_even_when_that_was_the_end(told: list[Any]) -> None:
    run = queued(max_attempts=1)
    attempt = claimed(run)
    attempt_give_up(attempt=attempt, reason="no disk", now=at(1))
    with pytest.raises(PlatformError) as caught:
        run_finish(attempt=attempt, document=result_document())
    assert caught.value.id == "runs:usage:stale"
    assert told == [("ended", "errored")]


@pytest.mark.parametrize(
    ("document", "named"),
    [
        (None, "the document"),
        ("x", "the document"),
        ([], "the document"),
        ({}, "purpose"),
        ({"purpose": "optimize", "status": "marvellous"}, "status"),
        ({"purpose": "optimize", "status": "succeeded", "speedup": "fast"}, "speedup"),
        ({"purpose": "optimize", "status": "succeeded", "speedup\x00": 1}, ""),
        ({"purpose": "optimize", "status": "succeeded", "new_field": 1}, "new_field"),
    ],
)
def test_an_answer_that_is_no_result_ends_the_run_as_ours(told: list[Any], document: Any, named: str) -> None:
    run = queued()
    run_finish(attempt=claimed(run), document=document, now=at(2))
    run.refresh_from_db()
    if not named:  # a NUL in a name is dropped, and what is left is a field of the result
        assert run.status == "succeeded"
        return
    assert (run.status, run.problem["id"]) == ("errored", "runs:ours:bad-result")
    assert named in run.problem["message"]
    assert told == [("ended", "errored")]


def test_an_answer_nested_without_end_ends_the_run_as_ours(told: list[Any]) -> None:
    deep: Any = {}
    for _ in range(100):
        deep = {"a": deep}
    run = queued()
    run_finish(attempt=claimed(run), document={**result_document(), "recipe": deep})
    run.refresh_from_db()
    assert run.problem["id"] == "runs:ours:bad-result"


def test_nuls_and_lone_surrogates_in_an_answer_are_stored_without_them() -> None:
    run = queued()
    run_finish(attempt=claimed(run), document=result_document(summary="fast\x00er \ud800", notes=["n\x00ote"]))
    run.refresh_from_db()
    assert run.summary == "faster ?"
    assert RunResult.objects.get(run=run).document["notes"] == ["note"]


def test_a_long_summary_is_cut() -> None:
    run = queued()
    run_finish(attempt=claimed(run), document=result_document(summary="x" * 2000))
    run.refresh_from_db()
    assert len(run.summary) == 500


def test_a_function_that_fails_ends_the_run_as_ours_and_leaves_nothing_half_filed(told: list[Any]) -> None:
    @finished.when_finished
    def z_last_by_name(run: Run, result: Result) -> None:
        RunResult.objects.create(run=run, attempt=run.attempt, document={})
        raise RuntimeError("a fault of ours")

    run = queued()
    attempt = claimed(run)
    run_finish(attempt=attempt, document=result_document(), now=at(3))
    run.refresh_from_db()
    attempt.refresh_from_db()
    assert (run.status, run.problem["id"], attempt.state) == ("errored", "runs:ours:not-filed", "ended")
    assert not RunResult.objects.filter(run=run).exists()
    assert run.worked_s == 3.0
    assert ("ended", "errored") in told


def test_a_database_that_went_away_leaves_the_run_as_it_was_for_the_worker_to_send_again(told: list[Any]) -> None:
    @finished.when_finished
    def interrupted(run: Run, result: Result) -> None:
        raise OperationalError("server closed the connection")

    run = queued()
    attempt = claimed(run)
    with pytest.raises(OperationalError):
        run_finish(attempt=attempt, document=result_document())
    run.refresh_from_db()
    attempt.refresh_from_db()
    assert (run.status, attempt.state) == ("running", "claimed")


def test_a_function_that_fails_at_an_end_without_result_does_not_hold_the_run_back(told: list[Any]) -> None:
    @finished.when_ended
    def failing(run: Run) -> None:
        raise RuntimeError("a fault of ours")

    run = queued(max_attempts=1)
    attempt_give_up(attempt=claimed(run), reason="no disk", now=at(1))
    run.refresh_from_db()
    assert run.status == "errored"
    assert told == [("ended", "errored")]


def test_the_result_is_kept_by_the_app_of_results() -> None:
    run = queued()
    run_finish(attempt=claimed(run), document=result_document())
    stored = RunResult.objects.get(run=run)
    assert (stored.verdict, stored.speedup, stored.attempt) == ("faster", 2.0, 1)
