"""The header Idempotency-Key: what starts something is started once, however often the request comes."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from fuseworks.accounts.idempotency import once
from fuseworks.accounts.models import IdempotencyKey, Membership, Team, User
from fuseworks.accounts.permissions import Actor
from fuseworks.core.errors import PlatformError
from fuseworks.registry.models import ModelVersion, Upload
from fuseworks.registry.services import clean
from fuseworks.runs.models import Run
from fuseworks.runs.services import run_cancel, run_create
from tests.platform import factories
from tests.platform.recipes.documents import document
from tests.platform.runs.test_races import WAIT_S, at_once

RUNS = "/api/v1/runs/"
KEY = "5f0c7b1e-0000-4000-8000-000000000001"
pytestmark = pytest.mark.django_db


@pytest.fixture
def team() -> Team:
    return factories.make_team("ads-ranking")


@pytest.fixture
def user(team: Team) -> User:
    return factories.make_member(team)


@pytest.fixture
def version(team: Team) -> ModelVersion:
    return factories.make_version(factories.make_model(team, "DIN"))


@pytest.fixture
def api(user: User) -> Any:
    return factories.api_for(factories.make_token(user))


def post(api: Any, path: str, body: Any, key: str = KEY) -> Any:
    return api.post(path, body, headers={"Idempotency-Key": key})


def test_the_same_request_again_gives_the_same_run_as_it_is_now(api: Any, user: User, version: ModelVersion) -> None:
    asked = {"version": str(version.pk), "policy": {"budget_s": 60}}
    first = post(api, RUNS, asked)
    run_cancel(actor=Actor(user), run=Run.objects.get())
    again = post(api, RUNS, dict(reversed(asked.items())))
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"] == str(Run.objects.get().pk)
    assert again.headers["Location"] == first.headers["Location"]
    assert (first.json()["status"], again.json()["status"]) == ("queued", "cancelled")


def test_without_a_key_or_with_another_one_a_run_is_another_run(api: Any, version: ModelVersion) -> None:
    asked = {"version": str(version.pk)}
    answers = [post(api, RUNS, asked), post(api, RUNS, asked, "other"), api.post(RUNS, asked), api.post(RUNS, asked)]
    assert [answer.status_code for answer in answers] == [201] * 4
    assert len({answer.json()["id"] for answer in answers}) == 4


def test_the_same_key_for_another_request_is_refused(api: Any, version: ModelVersion) -> None:
    run = post(api, RUNS, {"version": str(version.pk)}).json()["id"]
    Run.objects.update(status="failed")
    other_body = post(api, RUNS, {"version": str(version.pk), "policy": {"budget_s": 60}})
    other_address = post(api, f"{RUNS}{run}/retry/", {"version": str(version.pk)})
    for answer in (other_body, other_address):
        assert answer.status_code == 422
        assert answer.headers["Content-Type"] == "application/problem+json"
        told = answer.json()
        assert (told["id"], told["place"]) == ("accounts:usage:key-reused", "Idempotency-Key")
        assert KEY in told["detail"]
        assert "new key" in told["remedy"]
    assert Run.objects.count() == 1


def test_a_request_that_was_refused_may_be_mended_under_its_key(api: Any, version: ModelVersion) -> None:
    assert post(api, RUNS, {"version": str(version.pk), "policy": {"budget_s": 0}}).status_code == 400
    assert post(api, RUNS, {"version": str(uuid.uuid4())}).status_code == 404
    assert not IdempotencyKey.objects.exists()
    assert post(api, RUNS, {"version": str(version.pk)}).status_code == 201


def test_a_key_belongs_to_whoever_sent_it(api: Any, user: User, team: Team, version: ModelVersion) -> None:
    asked = {"version": str(version.pk)}
    senders = [
        api,
        factories.api_for(factories.make_token(user, team)),  # another token of the same person
        factories.api_for(user),  # his session
        factories.api_for(factories.make_token(factories.make_member(team))),
    ]
    ids = [post(sender, RUNS, asked).json()["id"] for sender in senders]
    assert len(set(ids)) == 4
    assert [post(sender, RUNS, asked).json()["id"] for sender in senders] == ids
    assert Run.objects.count() == 4


def test_who_may_no_longer_see_the_run_does_not_by_his_key(api: Any, user: User, version: ModelVersion) -> None:
    asked = {"version": str(version.pk)}
    assert post(api, RUNS, asked).status_code == 201
    Membership.objects.filter(user=user).delete()
    answer = post(api, RUNS, asked)
    assert (answer.status_code, answer.json()["id"]) == (404, "core:usage:not-found")


def test_a_key_is_kept_for_a_day_and_then_cleaned_away(api: Any, version: ModelVersion) -> None:
    asked = {"version": str(version.pk)}
    first = post(api, RUNS, asked).json()["id"]
    now = timezone.now()
    IdempotencyKey.objects.update(created_at=now - timedelta(hours=23, minutes=59))
    assert post(api, RUNS, asked).json()["id"] == first
    assert clean(now).keys == 0
    IdempotencyKey.objects.update(created_at=now - timedelta(hours=24, minutes=1))
    assert clean(now, dry_run=True).keys == 1
    # forgotten by then, whether it was cleaned away yet or not
    second = post(api, RUNS, asked)
    assert (second.status_code, second.json()["id"] != first) == (201, True)
    IdempotencyKey.objects.update(created_at=now - timedelta(hours=24, minutes=1))
    assert clean(now).keys == 1
    assert not IdempotencyKey.objects.exists()


@pytest.mark.parametrize("key", ["", "x" * 201, "\u00e9", "a\tb"])
def test_a_key_that_is_none_is_refused(api: Any, version: ModelVersion, key: str) -> None:
    answer = post(api, RUNS, {"version": str(version.pk)}, key)
    assert (answer.status_code, answer.json()["place"]) == (400, "Idempotency-Key")
    assert not Run.objects.exists()


def test_retries_replays_and_uploads_take_one_too(api: Any, team: Team, version: ModelVersion) -> None:
    over = factories.make_run(version, status="failed")
    recipe = factories.api_for(factories.make_token(factories.make_member(team))).post(
        "/api/v1/recipes/", {"team": team.slug, "document": document()}
    )
    requests: list[tuple[str, dict[str, Any]]] = [
        (f"{RUNS}{over.pk}/retry/", {}),
        (f"/api/v1/recipe-versions/{recipe.json()['id']}/apply/", {"version": str(version.pk), "target": "cpu"}),
        ("/api/v1/uploads/", {"team": team.slug, "model_name": "DIN", "filename": "m.onnx", "length_bytes": 9}),
    ]
    for number, (path, body) in enumerate(requests):
        answers = [post(api, path, body, f"key {number}") for _ in range(2)]
        assert [answer.status_code for answer in answers] == [201, 200], answers[0].content
        assert answers[0].json()["id"] == answers[1].json()["id"]
    assert sorted(Run.objects.values_list("purpose", "status")) == [
        ("optimize", "failed"),
        ("optimize", "queued"),
        ("replay", "queued"),
    ]
    assert Upload.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_two_at_once_one_starts_the_run_and_both_get_it(user: User, version: ModelVersion) -> None:
    token = factories.make_token(user)

    def ask(key: str) -> tuple[int, str]:
        answer = post(factories.api_for(token), RUNS, {"version": str(version.pk)}, key)
        return answer.status_code, answer.json()["id"]

    for number in range(5):
        key = f"key {number}"
        answers = at_once(*[lambda key=key: ask(key)] * 4)
        assert sorted(status for status, _ in answers) == [200, 200, 200, 201]
        assert len({run for _, run in answers}) == 1
    assert Run.objects.count() == 5


class Slow:
    """A request that holds its transaction open until it is told to go on, and another one that waits for it."""

    def __init__(self, actor: Actor, version: ModelVersion) -> None:
        self._actor, self._version = actor, version
        self._begun, self.go_on = threading.Event(), threading.Event()

    def first(self, end: Callable[[], None]) -> str:
        def make() -> Run:
            run = self._run()
            self._begun.set()
            assert self.go_on.wait(WAIT_S)
            end()
            return run

        return self._told(make)

    def second(self) -> str:
        assert self._begun.wait(WAIT_S)
        return self._told(self._run)

    def _run(self) -> Run:
        return run_create(actor=self._actor, version=self._version, purpose="optimize")

    def _told(self, make: Callable[[], Run]) -> str:
        request = SimpleNamespace(headers={"Idempotency-Key": KEY}, method="POST", path=RUNS, data={})
        try:
            done = once(request, actor=self._actor, make=make, find=lambda pk: Run.objects.get(pk=pk))
            return f"{'made' if done.is_new else 'found'} {done.row.pk}"
        except PlatformError as error:
            return error.id
        finally:
            connection.close()


def _one_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        row = cursor.fetchone()
    return bool(row and row[0])


def both(slow: Slow, end: Callable[[], None]) -> tuple[str, str]:
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(slow.first, end), pool.submit(slow.second)
        until = timezone.now() + timedelta(seconds=WAIT_S)
        while not _one_waits():
            assert timezone.now() < until
        slow.go_on.set()
        return first.result(WAIT_S), second.result(WAIT_S)


@pytest.mark.django_db(transaction=True)
def test_the_second_waits_until_the_first_has_ended(user: User, version: ModelVersion) -> None:
    first, second = both(Slow(Actor(user), version), end=lambda: None)
    run = Run.objects.get()
    assert (first, second) == (f"made {run.pk}", f"found {run.pk}")


@pytest.mark.django_db(transaction=True)
def test_where_the_first_is_refused_after_all_the_second_does_it(user: User, version: ModelVersion) -> None:
    def refuse() -> None:
        raise PlatformError("core:usage:refused", text="no")

    first, second = both(Slow(Actor(user), version), refuse)
    run = Run.objects.get()
    assert (first, second) == ("core:usage:refused", f"made {run.pk}")
