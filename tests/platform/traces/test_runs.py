"""Runs of purpose `diagnose`: what they may be of, and what is left when one ends."""

from __future__ import annotations

from typing import Any

import pytest

from fuseworks.accounts.models import Team
from fuseworks.accounts.permissions import Actor
from fuseworks.core.errors import PlatformError
from fuseworks.registry.models import ModelVersion
from fuseworks.results.models import RunResult
from fuseworks.runs.models import Run
from fuseworks.runs.services import run_create, run_finish, run_retry
from tests.platform import factories
from tests.platform.registry.helpers import refused
from tests.platform.runs.steps import claimed, opened, token_of, worker_client
from tests.platform.traces import support

pytestmark = pytest.mark.django_db


@pytest.fixture
def trace(team: Team) -> ModelVersion:
    return support.make_trace(support.make_job(team))


@pytest.fixture
def before(trace: ModelVersion) -> ModelVersion:
    return support.make_trace(trace.model, support.TRACE, filename="before.json")


def started(actor: Actor, version: ModelVersion, **fields: Any) -> Run:
    return run_create(**{"actor": actor, "version": version, "purpose": "diagnose", **fields})


def test_it_takes_no_more_time_than_an_inspection(actor: Actor, trace: ModelVersion, settings: Any) -> None:
    settings.INSPECT_BUDGET_S = 100
    run = started(actor, trace, policy={"budget_s": 900.0})
    assert (run.policy["budget_s"], run.time_limit_s) == (100.0, 2 * 100 + 900)


@pytest.mark.parametrize("purpose", ["inspect", "optimize", "explain", "replay"])
def test_nothing_else_can_be_done_with_a_trace(actor: Actor, trace: ModelVersion, purpose: str) -> None:
    error = refused(lambda: started(actor, trace, purpose=purpose))
    assert (error.id, error.place) == ("runs:usage:field", "purpose")
    assert "a trace can only be diagnosed" in error.message


def test_a_model_is_not_diagnosed_by_itself(actor: Actor, version: ModelVersion) -> None:
    error = refused(lambda: started(actor, version))
    assert (error.place, "only traces" in error.message) == ("purpose", True)


def test_a_trace_is_compared_with_a_trace_of_its_team(
    actor: Actor, trace: ModelVersion, before: ModelVersion, version: ModelVersion
) -> None:
    assert started(actor, trace, against=before).against == before
    assert "a trace is compared with a trace" in refused(lambda: started(actor, trace, against=version)).message
    assert "another trace than the one" in refused(lambda: started(actor, trace, against=trace)).message
    other = factories.make_team()
    factories.make_member(other, user=actor.user)
    theirs = support.make_trace(support.make_job(other))
    assert refused(lambda: started(actor, trace, against=theirs)).id == "runs:usage:other-teams-version"
    strangers = support.make_trace(support.make_job(factories.make_team()))
    assert refused(lambda: started(actor, trace, against=strangers)).id == "core:usage:not-found"
    another = factories.make_version(version.model)
    wrong = refused(lambda: started(actor, another, purpose="compare", against=trace))
    assert "a model with a model" in wrong.message


def test_a_deleted_trace_cannot_be_diagnosed(actor: Actor, trace: ModelVersion) -> None:
    from django.utils import timezone

    trace.deleted_at = timezone.now()
    trace.save()
    assert refused(lambda: started(actor, trace)).id == "runs:usage:version-deleted"


def test_running_it_again_asks_the_same(actor: Actor, trace: ModelVersion, before: ModelVersion) -> None:
    run = started(actor, trace, against=before)
    run_finish(attempt=claimed(run), document=support.document(support.slow()))
    again = run_retry(actor=actor, run=Run.objects.get(pk=run.pk))
    assert (again.purpose, again.version, again.against, again.retry_of) == ("diagnose", trace, before, run)


def test_a_worker_is_told_both_files(actor: Actor, trace: ModelVersion, before: ModelVersion, storage: Any) -> None:
    trace, before = (support.make_trace(trace.model, data, filename=name) for data, name in (
        (support.GZIPPED, "after.json.gz"), (support.TRACE, "before.json"),
    ))  # fmt: skip
    run = started(actor, trace, against=before)
    found = opened(run)
    worker = worker_client(token_of(found))
    body = {"attempt": 1, "worker": "host cpu"}
    told = worker.post(f"/api/v1/worker/runs/{run.pk}/claim/", body, format="json").json()
    assert (told["purpose"], told["workload"], told["recipe"]) == ("diagnose", None, None)
    files = {role: (file["filename"], file["size_bytes"]) for role, file in told["files"].items()}
    assert files == {
        "model": ("after.json.gz", len(support.GZIPPED)), "against": ("before.json", len(support.TRACE)),
    }  # fmt: skip
    address = told["files"]["against"]["address"]
    assert b"".join(worker.get(address[address.index("/api/") :])) == support.TRACE


def test_its_document_is_kept_whole_and_changes_no_inspection(actor: Actor, trace: ModelVersion) -> None:
    run, diagnosis = started(actor, trace), support.slow()
    run_finish(attempt=claimed(run), document=support.document(diagnosis))
    stored = RunResult.objects.get(run=run)
    assert stored.document["diagnosis"] == diagnosis.model_dump(mode="json")
    assert (stored.verdict, stored.speedup) == ("", None)
    run.refresh_from_db()
    trace.refresh_from_db()
    assert (run.status, run.summary, trace.inspection) == ("succeeded", diagnosis.summary, None)
    assert not trace.workloads.exists()


def test_the_same_trace_is_no_query_of_another_teams_people(team: Team, trace: ModelVersion) -> None:
    stranger = Actor(factories.make_member(factories.make_team()))
    with pytest.raises(PlatformError) as caught:
        started(stranger, trace)
    assert caught.value.id == "core:usage:not-found"
