"""Workers say hello, that they are alive, and goodbye."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from fuseworks.fleet.models import Worker
from fuseworks.fleet.services import worker_alive, worker_goodbye, worker_hello
from tests.platform import factories
from tests.platform.runs.steps import NOW, at, claimed, queued, worker_client, worker_row

pytestmark = pytest.mark.django_db
HELLO: dict[str, Any] = {"name": "host cpu", "host": "host", "target": "cpu", "manifest": {"backends": []}}


@pytest.fixture
def worker() -> APIClient:
    return worker_client("w" * 40)


def test_a_worker_says_hello_lives_and_says_goodbye(worker: APIClient) -> None:
    told = {**HELLO, "noise_floor": 0.02, "noise_floor_conditions": {"pairs": 6}}
    answer = worker.post("/api/v1/worker/hello/", told)
    row = Worker.objects.get()
    assert (answer.status_code, answer.json()) == (200, {"worker_id": str(row.pk), "heartbeat_s": 20.0})
    assert (row.name, row.target, row.noise_floor, row.noise_floor_conditions) == (
        "host cpu",
        "cpu",
        0.02,
        {"pairs": 6},
    )
    before = row.last_seen_at
    assert worker.post("/api/v1/worker/alive/", {"name": "host cpu"}).json() == {"heartbeat_s": 20.0}
    row.refresh_from_db()
    assert row.last_seen_at > before
    assert worker.post("/api/v1/worker/goodbye/", {"name": "host cpu"}).status_code == 200
    row.refresh_from_db()
    assert row.stopped_at is not None


def test_however_noisy_a_host_was_its_worker_is_known(worker: APIClient) -> None:
    answer = worker.post("/api/v1/worker/hello/", {**HELLO, "noise_floor": 16771.3})
    assert (answer.status_code, Worker.objects.get().noise_floor) == (200, 16771.3)


def test_who_was_not_heard_of_or_said_goodbye_must_say_hello(worker: APIClient) -> None:
    for path in ("alive", "goodbye"):
        answer = worker.post(f"/api/v1/worker/{path}/", {"name": "nobody"})
        assert (answer.status_code, answer.json()["id"]) == (404, "fleet:usage:unknown-worker")
    worker_row("gone", stopped_at=NOW)
    assert worker.post("/api/v1/worker/alive/", {"name": "gone"}).status_code == 404


def test_a_second_hello_of_one_at_work_keeps_its_start_and_its_floor() -> None:
    worker_hello(name="a", host="h", target="cpu", manifest={}, noise_floor=0.05, now=NOW)
    worker_hello(name="a", host="h", target="cpu", manifest={"format": 2}, now=at(30))
    row = Worker.objects.get()
    assert (row.started_at, row.last_seen_at, row.noise_floor, row.manifest) == (NOW, at(30), 0.05, {"format": 2})
    worker_hello(name="a", host="h", target="cpu", manifest={}, now=at(500))
    row.refresh_from_db()
    assert row.started_at == at(500)


def test_hello_takes_back_a_goodbye() -> None:
    worker_hello(name="a", host="h", target="cpu", manifest={}, now=NOW)
    worker_goodbye(name="a", now=at(1))
    worker_hello(name="a", host="h", target="cpu", manifest={}, now=at(2))
    worker_alive(name="a", now=at(3))
    row = Worker.objects.get()
    assert (row.stopped_at, row.started_at, row.last_seen_at) == (None, at(2), at(3))


@pytest.mark.parametrize("path", ["hello", "alive", "goodbye"])
def test_only_the_worker_token_opens(path: str) -> None:
    member = factories.make_member(factories.make_team(), "owner")
    for stranger in (
        APIClient(),
        worker_client("x" * 40),
        worker_client("w" * 39),
        worker_client("ÿ" * 40),
        worker_client(factories.make_token(member)),
        factories.api_for(member),
    ):
        assert stranger.post(f"/api/v1/worker/{path}/", HELLO).status_code == 401
    assert not Worker.objects.exists()


def test_a_site_without_a_worker_token_admits_nobody_and_says_why(settings: Any) -> None:
    settings.WORKER_TOKEN = ""
    answer = worker_client("w").post("/api/v1/worker/hello/", HELLO)
    assert (answer.status_code, answer.json()["id"]) == (403, "fleet:usage:no-worker-token")
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION="Bearer ")
    assert client.post("/api/v1/worker/hello/", HELLO).status_code == 401


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "n" * 201},
        {"name": "a\x00b"},
        {"name": None},
        {"target": "gpu"},
        {"target": "cpu;rm"},
        {"manifest": []},
        {"manifest": "x"},
        {"noise_floor": -0.1},
        {"noise_floor": "inf"},
        {"noise_floor": "nan"},
        {"noise_floor_conditions": [1]},
    ],
)
def test_a_hello_that_makes_no_sense_is_a_400(worker: APIClient, wrong: dict[str, Any]) -> None:
    answer = worker.post("/api/v1/worker/hello/", {**HELLO, **wrong})
    assert answer.status_code == 400
    assert list(answer.json()["fields"]) == list(wrong)
    assert not Worker.objects.exists()


def test_a_hostile_manifest_is_stored_harmlessly_and_a_huge_one_refused(worker: APIClient) -> None:
    assert worker.post("/api/v1/worker/hello/", {**HELLO, "manifest": {"a\x00": ["b\x00"]}}).status_code == 200
    assert Worker.objects.get().manifest == {"a": ["b"]}
    assert worker.post("/api/v1/worker/hello/", {**HELLO, "manifest": {"a": "x" * (5 << 20)}}).status_code == 413


def test_the_fleet_in_the_api_tells_of_visible_runs_only() -> None:
    mine, theirs = queued(), queued()
    from django.utils import timezone

    now = timezone.now()
    worker_row("a", seen=now, noise_floor=0.03)
    worker_row("b", seen=now)
    claimed(mine, now, worker="a")
    claimed(theirs, now, worker="b")
    api = factories.api_for(factories.make_token(factories.make_member(mine.team, "viewer")))
    body = api.get("/api/v1/workers/").json()
    assert [(w["name"], w["state"], w["run"], w["noise_floor"]) for w in body["workers"]] == [
        ("a", "busy", str(mine.pk), 0.03),
        ("b", "busy", None, None),
    ]
    assert body["queues"] == [{"target": "cpu", "waiting": 0, "running": 2, "workers": 2, "free": 0, "in_vain": 0}]
    assert body["dispatcher"] is False
    assert APIClient().get("/api/v1/workers/").status_code == 401
