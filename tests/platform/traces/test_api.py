"""Traces and diagnoses over the API."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from fuseworks.accounts.models import Team
from fuseworks.registry.models import ModelVersion
from optimizer.result import Diagnosis
from tests.platform import factories
from tests.platform.traces import support

pytestmark = pytest.mark.django_db
API = "/api/v1/"


@pytest.fixture
def api(team: Team) -> APIClient:
    return factories.api_for(factories.make_token(factories.make_member(team), team))


@pytest.fixture
def trace(team: Team) -> ModelVersion:
    return support.make_trace(support.make_job(team), data=support.GZIPPED)


@pytest.fixture(autouse=True)
def _storage(storage: Any) -> None:
    """Each test has one of its own."""


def test_a_trace_leads_to_its_diagnosis(api: APIClient, trace: ModelVersion) -> None:
    diagnosis = support.slow()
    run = support.diagnosis_run(trace, diagnosis)
    (row,) = api.get(f"{API}traces/").json()["results"]
    assert row == api.get(f"{API}traces/{trace.pk}/").json()
    assert (row["run"], row["run_status"], row["summary"]) == (str(run.pk), "succeeded", diagnosis.summary)
    found = api.get(row["diagnosis"].removeprefix("http://testserver"))
    assert (found.status_code, found.headers["Content-Type"].partition(";")[0]) == (200, "application/json")
    assert Diagnosis.model_validate(found.json()) == diagnosis
    assert b"".join(api.get(row["file"].removeprefix("http://testserver"))) == support.GZIPPED


def test_the_list_is_narrowed_down(api: APIClient, trace: ModelVersion) -> None:
    other = support.make_trace(support.make_job(trace.model.team, "Weekly"), support.TRACE, filename="w.json")
    factories.make_version(factories.make_model(trace.model.team))

    def found(query: str) -> list[str]:
        return [row["id"] for row in api.get(f"{API}traces/?{query}").json()["results"]]

    assert found("") == [str(other.pk), str(trace.pk)]
    assert found(f"job={trace.model_id}") == found("q=night") == found(f"sha256={trace.sha256}") == [str(trace.pk)]
    assert found("team=other") == found("deleted=true") == []


def test_a_comparison_is_a_run_against_another_trace(api: APIClient, trace: ModelVersion) -> None:
    before = support.make_trace(trace.model, support.TRACE, filename="before.json")
    body = {"version": str(trace.pk), "purpose": "diagnose", "against": str(before.pk)}
    run = api.post(f"{API}runs/", body).json()
    assert (run["purpose"], run["against"], run["status"]) == ("diagnose", str(before.pk), "queued")
    none = api.get(f"{API}runs/{run['id']}/diagnosis/")
    assert (none.status_code, none.json()["id"]) == (404, "results:usage:none-yet")
    # the comparison is not the trace's own diagnosis
    assert api.get(f"{API}traces/{trace.pk}/").json()["run"] is None


def test_a_run_that_found_nothing_out_has_no_diagnosis(api: APIClient, trace: ModelVersion) -> None:
    run = factories.make_run(trace, purpose="diagnose", status="errored")
    answer = api.get(f"{API}runs/{run.pk}/diagnosis/")
    assert (answer.status_code, answer.json()["id"]) == (404, "results:usage:none")
    assert api.get(f"{API}runs/{run.pk}/diagnosis/?format=pdf").status_code == 404


def test_a_strangers_token_gets_404(trace: ModelVersion) -> None:
    run = support.diagnosis_run(trace, support.slow())
    other = factories.make_team()
    stranger = factories.api_for(factories.make_token(factories.make_member(other), other))
    assert stranger.get(f"{API}traces/").json()["results"] == []
    for address in (f"traces/{trace.pk}/", f"runs/{run.pk}/diagnosis/", f"versions/{trace.pk}/file/"):
        assert stranger.get(f"{API}{address}").status_code == 404, address
    put = stranger.generic("PUT", f"{API}traces/ads-ranking/Nightly/t.json", b"{}", content_type="text/plain")
    assert put.status_code == 404


def test_the_result_of_the_run_holds_it_too(api: APIClient, trace: ModelVersion) -> None:
    diagnosis = support.slow()
    run = support.diagnosis_run(trace, diagnosis)
    document = api.get(f"{API}runs/{run.pk}/result/").json()["document"]
    assert document["diagnosis"]["summary"] == diagnosis.summary
