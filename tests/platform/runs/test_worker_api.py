"""The worker's endpoints over HTTP: who may call them, what they answer, and hostile bodies."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

import pytest
from rest_framework.test import APIClient

from fuseworks.accounts.permissions import Actor
from fuseworks.core.storage import open_stored
from fuseworks.fleet.models import Worker
from fuseworks.runs.models import Artifact, Attempt, Run, RunEvent
from fuseworks.runs.services import Opened, attempt_unsend, run_cancel
from tests.platform import factories
from tests.platform.runs.steps import event, opened, queued, token_of, worker_client, worker_row

pytestmark = pytest.mark.django_db
MODEL = b"class Model: ...  # the upload's own bytes\n"
VERBS = ("claim", "heartbeat", "events", "finish", "give-up")
BODIES: dict[str, dict[str, Any]] = {
    "claim": {"worker": "host cpu"},
    "heartbeat": {},
    "events": {"first": 0, "events": []},
    "finish": {"result": {}},
    "give-up": {"reason": "no disk"},
}


@pytest.fixture
def run() -> Run:
    team = factories.make_team()
    version = factories.make_version(factories.make_model(team), MODEL, filename="din.py")
    return factories.make_run(version, workload=factories.make_workload(version), time_limit_s=1000.0)


@pytest.fixture
def sent(run: Run) -> Opened:
    from django.utils import timezone

    return opened(run, timezone.now())


@pytest.fixture
def worker(sent: Opened) -> APIClient:
    return worker_client(token_of(sent))


def address(run: Run, verb: str) -> str:
    return f"/api/v1/worker/runs/{run.pk}/{verb}/"


def post(worker: APIClient, run: Run, verb: str, /, attempt: Any = 1, **body: Any) -> Any:
    return worker.post(address(run, verb), {**BODIES[verb], "attempt": attempt, **body})


def test_the_whole_life_of_an_attempt(settings: Any, run: Run, worker: APIClient) -> None:
    settings.LEASE_S, settings.WORKER_API_URL = 45, "http://site.example"
    worker_row("host cpu")
    claim = post(worker, run, "claim")
    assert claim.status_code == 200
    task = claim.json()
    base = f"http://site.example/api/v1/worker/runs/{run.pk}"
    assert task.pop("time_left_s") == pytest.approx(1000, abs=5)
    assert task == {
        "purpose": "optimize",
        "target": "cpu",
        "policy": run.policy,
        "workload": run.workload.document,
        "files": {
            "model": {
                "address": f"{base}/files/model/?attempt=1",
                "filename": "din.py",
                "sha256": hashlib.sha256(MODEL).hexdigest(),
                "size_bytes": len(MODEL),
            }
        },
        "recipe": None,
        "lease_s": 45,
    }
    file = worker.get(task["files"]["model"]["address"].removeprefix("http://site.example"))
    assert b"".join(file.streaming_content) == MODEL
    beat = post(worker, run, "heartbeat")
    assert {**beat.json(), "time_left_s": 0} == {"lease_s": 45, "cancel": False, "time_left_s": 0}
    assert post(worker, run, "events", events=[event(), event()]).json() == {"next": 2}
    report = b"<h1>faster</h1>"
    put = worker.put(
        f"/api/v1/worker/runs/{run.pk}/artifacts/report.html/?attempt=1",
        report,
        content_type="application/octet-stream",
        headers={"X-Content-SHA256": hashlib.sha256(report).hexdigest()},
    )
    assert put.status_code == 201
    with open_stored(Artifact.objects.get(run=run).storage_key) as stored:
        assert stored.read() == report
    for _ in range(2):
        finish = post(worker, run, "finish", result=factories.result_document())
        assert (finish.status_code, finish.json()) == (200, {"status": "succeeded"})
    run.refresh_from_db()
    assert (run.status, run.result.speedup) == ("succeeded", 2.0)


def test_a_comparison_hands_out_both_uploads_and_a_replay_its_recipe(run: Run, worker: APIClient) -> None:
    before = factories.make_version(run.version.model, b"the version before", filename="old.py")
    Run.objects.update(against=before, purpose="compare")
    files = post(worker, run, "claim").json()["files"]
    assert {role: file["filename"] for role, file in files.items()} == {"model": "din.py", "against": "old.py"}
    answer = worker.get(f"/api/v1/worker/runs/{run.pk}/files/against/?attempt=1")
    assert b"".join(answer.streaming_content) == b"the version before"
    assert worker.get(f"/api/v1/worker/runs/{run.pk}/files/secret/?attempt=1").status_code == 404


def test_a_comparison_of_packages_hands_out_the_recipe_that_packages_both(run: Run, worker: APIClient) -> None:
    before = factories.make_version(run.version.model, b"the version before", filename="old.py")
    Run.objects.update(against=before, purpose="compare", recipe_document={"kind": "Recipe"})
    assert post(worker, run, "claim").json()["recipe"] == {"kind": "Recipe"}


def test_a_heartbeat_tells_of_cancelling(run: Run, worker: APIClient) -> None:
    post(worker, run, "claim")
    run_cancel(actor=Actor(factories.make_member(run.team)), run=run)
    assert post(worker, run, "heartbeat").json()["cancel"] is True


def test_giving_up_sends_the_run_back(run: Run, worker: APIClient) -> None:
    post(worker, run, "claim")
    assert post(worker, run, "give-up", reason="no \x00disk").json() == {"status": "queued"}
    assert (Attempt.objects.get().state, Attempt.objects.get().reason) == ("gave_up", "no disk")


def test_a_worker_says_whether_it_works_and_whether_it_was_told_to_end(run: Run, worker: APIClient) -> None:
    assert post(worker, run, "claim", works=False).status_code == 200
    clocks = []
    for works in (False, True, False):
        assert post(worker, run, "heartbeat", works=works).status_code == 200
        clocks.append(Attempt.objects.get().works)
    assert clocks == [False, True, False]
    assert post(worker, run, "give-up", stopping=True).json() == {"status": "queued"}
    assert Attempt.objects.get().state == "stopped"


def test_the_file_of_another_team_goes_by_a_name_that_tells_nothing(run: Run, worker: APIClient) -> None:
    other = factories.make_version(factories.make_model(factories.make_team()), b"theirs", filename="zebra.py")
    Run.objects.update(against=other, purpose="compare")
    files = post(worker, run, "claim").json()["files"]
    assert {role: file["filename"] for role, file in files.items()} == {"model": "din.py", "against": "against.py"}


@pytest.mark.parametrize("verb", VERBS)
def test_nobody_gets_in_without_an_attempts_token(run: Run, sent: Opened, verb: str) -> None:
    member = factories.make_member(run.team, "owner")
    strangers = [
        APIClient(),
        worker_client("t" * 43),
        worker_client(sent.attempt.token_sha256),
        worker_client(factories.make_token(member)),
        factories.api_for(member),
    ]
    for stranger in strangers:
        answer = post(stranger, run, verb)
        assert answer.status_code == 401
        assert answer.headers["Content-Type"] == "application/problem+json"
    assert worker_client("t" * 43).get(f"/api/v1/worker/runs/{run.pk}/files/model/?attempt=1").status_code == 401
    run.refresh_from_db()
    assert run.status == "queued"


def test_an_attempts_token_opens_nothing_else(worker: APIClient) -> None:
    for path in ("runs/", "me/", "models/", "workers/"):
        assert worker.get(f"/api/v1/{path}").status_code == 401
    assert worker.post("/api/v1/worker/hello/", {}).status_code in {401, 403}


@pytest.mark.parametrize("verb", VERBS)
def test_a_token_is_good_for_its_own_run_alone(worker: APIClient, verb: str) -> None:
    other = queued()
    opened(other)
    assert post(worker, other, verb).status_code == 404
    other.refresh_from_db()
    assert other.status == "queued"


@pytest.mark.parametrize("verb", VERBS)
def test_a_token_is_good_for_its_own_attempt_alone(run: Run, worker: APIClient, verb: str) -> None:
    answer = post(worker, run, verb, attempt=2)
    assert (answer.status_code, answer.json()["id"]) == (409, "runs:usage:stale")


@pytest.mark.parametrize("verb", VERBS)
def test_a_stale_attempt_learns_it_with_every_post(run: Run, sent: Opened, worker: APIClient, verb: str) -> None:
    attempt_unsend(attempt=sent.attempt, reason="lost")
    opened(run)
    answer = post(worker, run, verb)
    assert (answer.status_code, answer.json()["id"]) == (409, "runs:usage:stale")
    run.refresh_from_db()
    assert (run.status, run.attempt, RunEvent.objects.count()) == ("queued", 2, 0)


@pytest.mark.parametrize("verb", VERBS[1:])
def test_nothing_is_taken_before_the_claim(run: Run, worker: APIClient, verb: str) -> None:
    assert post(worker, run, verb).status_code == 409
    assert worker.get(f"/api/v1/worker/runs/{run.pk}/files/model/?attempt=1").status_code == 409


def test_a_second_claim_is_refused(run: Run, worker: APIClient) -> None:
    assert post(worker, run, "claim").status_code == 200
    answer = post(worker, run, "claim")
    assert (answer.status_code, answer.json()["id"]) == (409, "runs:usage:stale")


def test_an_unknown_worker_may_claim_and_is_not_made_up(run: Run, worker: APIClient) -> None:
    assert post(worker, run, "claim", worker="nobody knows").status_code == 200
    assert not Worker.objects.exists()


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[]",
        "null",
        "7",
        '"x"',
        "{}",
        '{"attempt": 0}',
        '{"attempt": "one"}',
        '{"attempt": 1e400}',
        '{"attempt": [1]}',
        '{"attempt": ' + "9" * 5000 + "}",
        '{"attempt": ' + "9" * 30 + "}",
        "[" * 20_000,
        '{"a":' * 10_000,
        "\x00",
        "\ufeff{}",
    ],
    ids=lambda text: repr(text[:14]),
)
def test_a_body_that_makes_no_sense_is_a_400(run: Run, worker: APIClient, verb: str, body: str) -> None:
    answer = worker.post(address(run, verb), body, content_type="application/json")
    assert answer.status_code == 400
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["remedy"]


def test_a_body_that_is_no_utf8_is_a_400(run: Run, worker: APIClient) -> None:
    answer = worker.post(address(run, "claim"), b"\xff\xfe\xff", content_type="application/json")
    assert answer.status_code == 400


def test_a_form_is_not_taken_for_json(run: Run, worker: APIClient) -> None:
    assert worker.post(address(run, "claim"), {"attempt": 1, "worker": "w"}, format="multipart").status_code == 415


def test_a_body_past_the_limit_is_a_413(run: Run, worker: APIClient) -> None:
    answer = post(worker, run, "claim", worker="w" * 70_000)
    assert (answer.status_code, answer.json()["id"]) == (413, "core:usage:body-too-large")


@pytest.mark.parametrize(
    "wrong",
    [
        {"first": -1},
        {"first": "a"},
        {"first": 2**31},
        {"events": {}},
        {"events": [1]},
        {"events": ["x"]},
        {"events": [{}]},
        {"events": [event()] * 501},
        {"events": [event(kind=None)]},
        {"events": [event(done=2.5)]},
        {"events": [event(message=["x"])]},
    ],
    ids=lambda wrong: json.dumps(wrong)[:40],
)
def test_wrong_events_are_a_400_and_none_is_kept(run: Run, worker: APIClient, wrong: dict[str, Any]) -> None:
    post(worker, run, "claim")
    assert post(worker, run, "events", **wrong).status_code == 400
    assert not RunEvent.objects.exists()


def test_events_with_nul_and_numbers_without_end_are_kept_harmlessly(run: Run, worker: APIClient) -> None:
    post(worker, run, "claim")
    body = json.dumps({"attempt": 1, "first": 0, "events": [event(message="a\x00b\ud800", data={"n": 1})]})
    body = body.replace('"n": 1', '"n": 1e999, "big": ' + "7" * 400)
    answer = worker.post(address(run, "events"), body, content_type="application/json")
    assert answer.status_code == 200
    kept = RunEvent.objects.get(run=run)
    assert (kept.message, kept.data) == ("ab?", {"n": None, "big": int("7" * 400)})


def test_a_result_that_is_none_is_answered_and_ends_the_run_as_ours(run: Run, worker: APIClient) -> None:
    post(worker, run, "claim")
    answer = post(worker, run, "finish", result=None)
    assert (answer.status_code, answer.json()) == (200, {"status": "errored"})
    run.refresh_from_db()
    assert run.problem["id"] == "runs:ours:bad-result"


@pytest.mark.parametrize(
    ("name", "headers", "status", "id_"),
    [
        ("report.html", {}, 400, "core:usage:invalid"),
        ("report.html", {"X-Content-SHA256": "short"}, 400, "core:usage:invalid"),
        ("report.html", {"X-Content-SHA256": "0" * 64}, 422, "runs:usage:digest"),
        ("evil.sh", {"X-Content-SHA256": "0" * 64}, 400, "runs:usage:artifact-name"),
    ],
)
def test_a_file_that_cannot_be_kept_is_refused(
    run: Run, worker: APIClient, name: str, headers: dict[str, str], status: int, id_: str
) -> None:
    post(worker, run, "claim")
    answer = worker.put(
        f"/api/v1/worker/runs/{run.pk}/artifacts/{name}/?attempt=1", b"x", content_type="text/html", headers=headers
    )
    assert (answer.status_code, answer.json()["id"]) == (status, id_)
    assert not Artifact.objects.exists()


def test_a_file_without_a_claim_is_refused(run: Run, worker: APIClient) -> None:
    answer = worker.put(
        f"/api/v1/worker/runs/{run.pk}/artifacts/log.txt/?attempt=1",
        b"x",
        content_type="text/plain",
        headers={"X-Content-SHA256": hashlib.sha256(b"x").hexdigest()},
    )
    assert answer.status_code == 409


def test_a_run_that_is_not_there_is_a_404(worker: APIClient) -> None:
    assert worker.post(f"/api/v1/worker/runs/{uuid.uuid4()}/claim/", {"attempt": 1, "worker": "w"}).status_code == 404


def test_workers_endpoints_are_not_in_the_public_schema(run: Run) -> None:
    client = factories.api_for(factories.make_member(run.team))
    text = client.get("/api/v1/schema/?format=json").content.decode()
    assert "/api/v1/runs/{run_id}/events/" in text
    assert "worker/runs" not in text and "worker/hello" not in text
