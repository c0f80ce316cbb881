"""Runs in the public API."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from fuseworks.accounts.models import Team
from fuseworks.core.storage import store
from fuseworks.gates.models import GateCheck
from fuseworks.registry.models import ModelVersion
from fuseworks.runs.models import Artifact, Run
from fuseworks.runs.services import attempt_give_up, events_append
from tests.platform import factories
from tests.platform.runs.steps import NOW, at, claimed, event, opened, worker_row

pytestmark = pytest.mark.django_db


@pytest.fixture
def api(team: Team) -> Any:
    return factories.api_for(factories.make_token(factories.make_member(team)))


@pytest.fixture
def stranger() -> Any:
    return factories.api_for(factories.make_member(factories.make_team()))


def test_a_run_is_started_and_seen(api: Any, version: ModelVersion) -> None:
    workload = factories.make_workload(version)
    answer = api.post("/api/v1/runs/", {"version": str(version.pk), "policy": {"budget_s": 60}})
    assert answer.status_code == 201
    body = answer.json()
    run = Run.objects.get()
    assert answer.headers["Location"] == body["links"]["self"] == f"http://testserver/api/v1/runs/{run.pk}/"
    assert (body["id"], body["team"], body["status"], body["purpose"]) == (
        str(run.pk),
        "ads-ranking",
        "queued",
        "optimize",
    )
    assert body["queue"] == {
        "position": 0,
        "workers": 0,
        "waits_for": "worker",
        "reason": "No worker serves this target at the moment.",
    }
    assert (body["workload"], body["problem"], body["gate"], body["verdict"]) == (str(workload.pk), None, None, None)
    assert body["page"] == f"http://testserver/runs/{run.pk}/"
    assert api.get(body["links"]["self"]).json() == body


def test_a_gate_is_started_in_one_request(api: Any, version: ModelVersion) -> None:
    before = factories.make_version(version.model)
    asked = {"version": str(version.pk), "purpose": "compare", "against": str(before.pk), "max_latency_ratio": 1.05}
    body = api.post("/api/v1/runs/", asked).json()
    assert (body["against"], body["gate"]["max_latency_ratio"], body["gate"]["outcome"]) == (
        str(before.pk),
        1.05,
        "pending",
    )


@pytest.mark.parametrize(
    ("asked", "place"),
    [
        ({"policy": {"budget_s": 0}}, "policy.budget_s"),
        ({"purpose": "compare"}, "against"),
        ({"target": "gpu"}, "target"),
        ({"max_latency_ratio": 2}, "max_latency_ratio"),
    ],
)
def test_a_wrong_field_is_named(api: Any, version: ModelVersion, asked: dict[str, Any], place: str) -> None:
    answer = api.post("/api/v1/runs/", {"version": str(version.pk), **asked})
    assert (answer.status_code, answer.json()["place"], list(answer.json()["fields"])) == (400, place, [place])
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"version": "x"},
        {"version": None},
        [],
        {"version": str(uuid.uuid4()), "purpose": "guess"},
        {"version": str(uuid.uuid4()), "policy": 3},
        {"version": str(uuid.uuid4()), "workload": "x"},
        {"version": str(uuid.uuid4()), "target": "c\x00pu"},
    ],
)
def test_a_body_that_makes_no_sense_is_a_400_with_its_fields(api: Any, asked: Any) -> None:
    answer = api.post("/api/v1/runs/", asked)
    assert answer.status_code == 400
    assert answer.json()["fields"]


@pytest.mark.parametrize("field", ["version", "against", "workload", "recipe_version"])
def test_what_the_caller_may_not_see_is_a_404(api: Any, version: ModelVersion, field: str) -> None:
    theirs = factories.make_version(factories.make_model(factories.make_team()))
    hidden = {"version": theirs.pk, "against": theirs.pk, "workload": factories.make_workload(theirs).pk}
    asked = {"version": str(version.pk), field: str(hidden.get(field, uuid.uuid4()))}
    assert api.post("/api/v1/runs/", asked).status_code == 404
    assert not Run.objects.exists()


def test_a_viewer_is_told_his_role_and_a_reading_token_its_scope(team: Team, version: ModelVersion) -> None:
    viewer = factories.api_for(factories.make_member(team, "viewer"))
    answer = viewer.post("/api/v1/runs/", {"version": str(version.pk)})
    assert (answer.status_code, answer.json()["id"]) == (403, "core:usage:forbidden")
    reading = factories.api_for(factories.make_token(factories.make_member(team), scopes=("read",)))
    answer = reading.post("/api/v1/runs/", {"version": str(version.pk)})
    assert (answer.status_code, answer.json()["id"]) == (403, "core:usage:token-scope")
    assert reading.get("/api/v1/runs/").status_code == 200


def test_strangers_get_404_and_the_anonymous_401(stranger: Any, version: ModelVersion) -> None:
    run = factories.make_run(version)
    for path, verb in [("", "get"), ("events/", "get"), ("artifacts/", "get"), ("artifacts/log.txt/", "get")]:
        assert getattr(stranger, verb)(f"/api/v1/runs/{run.pk}/{path}").status_code == 404
    for path in ("cancel/", "retry/"):
        assert stranger.post(f"/api/v1/runs/{run.pk}/{path}").status_code == 404
    assert stranger.get("/api/v1/runs/").json()["count"] == 0
    anonymous = factories.APIClient()
    assert anonymous.get(f"/api/v1/runs/{run.pk}/").status_code == 401
    assert anonymous.post("/api/v1/runs/", {}).status_code == 401


def test_the_list_is_newest_first_and_narrowed_by_each_filter(api: Any, team: Team, version: ModelVersion) -> None:
    other = factories.make_version(factories.make_model(team, "DLRM"))
    queued = factories.make_run(version)
    failed = factories.make_run(version, status="failed", purpose="inspect")
    done = factories.make_run(other, status="succeeded")
    factories.make_result(done)
    factories.make_run(factories.make_version(factories.make_model(factories.make_team())))

    def listed(query: str) -> list[str]:
        answer = api.get(f"/api/v1/runs/?{query}")
        assert answer.status_code == 200
        return [row["id"] for row in answer.json()["results"]]

    assert listed("") == [str(done.pk), str(failed.pk), str(queued.pk)]
    assert listed("status=queued&status=failed") == [str(failed.pk), str(queued.pk)]
    assert listed("purpose=inspect") == [str(failed.pk)]
    assert listed("team=ads-ranking&verdict=faster") == [str(done.pk)]
    assert listed("team=nobody") == []
    assert listed(f"model={version.model.pk}") == [str(failed.pk), str(queued.pk)]
    assert listed(f"version={other.pk}") == [str(done.pk)]
    assert listed("target=cuda:sm_90") == []
    assert listed("page_size=1&page=2") == [str(failed.pk)]


@pytest.mark.parametrize("query", ["status=odd", "purpose=odd", "verdict=odd", "model=odd", "version=7"])
def test_a_filter_that_makes_no_sense_is_a_400(api: Any, query: str) -> None:
    answer = api.get(f"/api/v1/runs/?{query}")
    assert answer.status_code == 400
    assert list(answer.json()["fields"]) == [query.partition("=")[0]]


def test_the_list_costs_as_many_queries_with_ten_runs_as_with_one(
    api: Any, version: ModelVersion, django_assert_max_num_queries: Any
) -> None:
    for _ in range(10):
        factories.make_result(factories.make_run(version, status="succeeded"))
    with django_assert_max_num_queries(6):
        assert len(api.get("/api/v1/runs/").json()["results"]) == 10


def test_a_run_at_work_shows_stage_progress_and_time(api: Any, version: ModelVersion) -> None:
    worker_row()
    run = factories.make_run(version)
    attempt = claimed(run)
    posted = [event("benchmarking", "Screening a", candidate="a", done=1, total=4, data={"speedup": 2.0})]
    events_append(attempt=attempt, first=0, events=posted)
    body = api.get(f"/api/v1/runs/{run.pk}/").json()
    assert (body["status"], body["stage"], body["candidate"], body["queue"]) == ("running", "benchmarking", "a", None)
    assert (body["progress"]["done"], body["progress"]["total"], body["attempt"]) == (1, 4, 1)
    assert body["elapsed_s"] > 0


def test_a_run_that_failed_says_cause_place_and_remedy(api: Any, version: ModelVersion) -> None:
    problem = {
        "id": "child:user:exception",
        "side": "user",
        "message": "The model's own code raised ValueError: no",
        "place": "model.py:41",
        "remedy": "Run it by itself.",
        "detail": "Traceback",
        "context": {},
    }
    run = factories.make_run(version, status="failed", problem=problem)
    GateCheck.objects.create(run=run, max_latency_ratio=1.05, outcome="no_result")
    body = api.get(f"/api/v1/runs/{run.pk}/").json()
    assert body["problem"] == {key: problem[key] for key in ("id", "side", "message", "place", "remedy")}
    assert body["gate"]["outcome"] == "no_result"


def test_a_queued_run_is_cancelled_and_repeated(api: Any, version: ModelVersion) -> None:
    run = factories.make_run(version)
    answer = api.post(f"/api/v1/runs/{run.pk}/cancel/")
    assert (answer.status_code, answer.json()["status"]) == (202, "cancelled")
    answer = api.post(f"/api/v1/runs/{run.pk}/cancel/")
    assert (answer.status_code, answer.json()["id"]) == (409, "runs:usage:over")
    answer = api.post(f"/api/v1/runs/{run.pk}/retry/")
    assert (answer.status_code, answer.json()["retry_of"], answer.json()["status"]) == (201, str(run.pk), "queued")
    answer = api.post(f"/api/v1/runs/{answer.json()['id']}/retry/")
    assert (answer.status_code, answer.json()["id"]) == (409, "runs:usage:not-over")


def test_a_running_run_is_asked_to_stop(api: Any, version: ModelVersion) -> None:
    run = factories.make_run(version)
    claimed(run)
    body = api.post(f"/api/v1/runs/{run.pk}/cancel/").json()
    assert (body["status"], body["cancel_requested"]) == ("running", True)


def test_events_come_in_pages_by_what_the_answer_before_said(
    api: Any, version: ModelVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = factories.make_run(version)
    attempt = claimed(run)
    events_append(attempt=attempt, first=0, events=[event(message="a", data={"k": 1}), event(message="b")])
    address = f"/api/v1/runs/{run.pk}/events/"
    body = api.get(address).json()
    assert (body["status"], body["next"], body["more"]) == ("running", 1_000_001, False)
    assert [(e["position"], e["message"], e["data"]) for e in body["events"]] == [
        (1_000_000, "a", {"k": 1}),
        (1_000_001, "b", {}),
    ]
    rest = api.get(f"{address}?after={body['next']}").json()
    assert (rest["events"], rest["next"]) == ([], body["next"])


@pytest.mark.parametrize("query", ["after=-1", "after=x", "wait=-1", "wait=31", "wait=nan", "after=1e3"])
def test_a_question_for_events_that_makes_no_sense_is_a_400(api: Any, version: ModelVersion, query: str) -> None:
    assert api.get(f"/api/v1/runs/{factories.make_run(version).pk}/events/?{query}").status_code == 400


def test_waiting_for_events_of_a_run_that_is_over_answers_at_once(api: Any, version: ModelVersion) -> None:
    run = factories.make_run(version, status="failed")
    body = api.get(f"/api/v1/runs/{run.pk}/events/?after=999999999999999999&wait=30").json()
    assert (body["status"], body["events"]) == ("failed", [])


def stored(run: Run, name: str, data: bytes, attempt: int = 1) -> None:
    import io

    kept = store(io.BytesIO(data), prefix="artifacts")
    Artifact.objects.create(
        run=run, attempt=attempt, name=name, size_bytes=len(data), sha256=kept.sha256, storage_key=kept.key
    )


def test_files_are_listed_and_downloaded_and_a_report_is_never_shown_inside_the_site(
    api: Any, version: ModelVersion
) -> None:
    run = factories.make_run(version, status="succeeded", attempt=2)
    stored(run, "report.html", b"<script>alert(1)</script>", attempt=2)
    stored(run, "log.txt", b"of the attempt before", attempt=1)
    (listed,) = api.get(f"/api/v1/runs/{run.pk}/artifacts/").json()
    assert (listed["name"], listed["size_bytes"]) == ("report.html", 25)
    answer = api.get(listed["address"])
    assert b"".join(answer.streaming_content) == b"<script>alert(1)</script>"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="din-v1-report.html"'
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    assert api.get(f"/api/v1/runs/{run.pk}/artifacts/log.txt/").status_code == 404


def test_the_queue_says_how_many_are_before(api: Any, team: Team, version: ModelVersion, settings: Any) -> None:
    from django.utils import timezone

    now = timezone.now()
    worker_row(seen=now)
    first, second = factories.make_run(version), factories.make_run(version)
    assert api.get(f"/api/v1/runs/{second.pk}/").json()["queue"] == {
        "position": 1,
        "workers": 1,
        "waits_for": "turn",
        "reason": "1 run is before it. "
        "Inspections go first, then business units take turns: it may grow when an inspection comes, or when a unit "
        "with fewer runs at work asks for one.",
    }
    opened(first, now)
    assert api.get(f"/api/v1/runs/{first.pk}/").json()["queue"]["waits_for"] == "claim"
    assert api.get(f"/api/v1/runs/{second.pk}/").json()["queue"]["position"] == 0


def test_a_run_that_was_given_back_tells_its_attempts(api: Any, version: ModelVersion) -> None:
    run = factories.make_run(version)
    attempt_give_up(attempt=claimed(run), reason="no disk", now=at(5))
    body = api.get(f"/api/v1/runs/{run.pk}/").json()
    assert (body["status"], body["attempt"], body["max_attempts"], body["elapsed_s"]) == ("queued", 1, 3, 5.0)
    assert at(5) > NOW
