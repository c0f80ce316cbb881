"""Starting a prediction for a GPU that is not there, from a version's page and through the API."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from fuseworks.registry.models import ModelVersion
from fuseworks.runs.models import Run
from tests.platform import factories
from tests.platform.runs.steps import worker_row

pytestmark = pytest.mark.django_db

PREDICTS = {"predicts": ["cuda:sm_80", "cuda:sm_90"]}


@pytest.fixture
def version() -> ModelVersion:
    return factories.make_version(factories.make_model(factories.make_team()))


@pytest.fixture
def client(version: ModelVersion) -> Client:
    return factories.client_for(factories.make_member(version.model.team, "member"))


def post(client: Client, version: ModelVersion, target: str) -> Any:
    return client.post(f"/versions/{version.pk}/predict/", {"predict-target": target})


def test_without_a_worker_that_predicts_the_page_says_how_to_start_one(client: Client, version: ModelVersion) -> None:
    worker_row("old", seen=timezone.now())
    worker_row("gone", seen=timezone.now() - timedelta(days=1), manifest=PREDICTS)
    shown = client.get(f"/versions/{version.pk}/").content.decode()
    assert "No CPU worker that predicts is alive." in shown and 'name="predict-target"' not in shown


def test_the_page_offers_what_living_workers_predict_for(client: Client, version: ModelVersion) -> None:
    worker_row("host cpu", seen=timezone.now(), manifest=PREDICTS)
    shown = client.get(f"/versions/{version.pk}/").content.decode()
    assert '<option value="cuda:sm_80">' in shown and '<option value="cuda:sm_90">' in shown


def test_the_button_starts_a_run_that_explains(client: Client, version: ModelVersion) -> None:
    worker_row("host cpu", seen=timezone.now(), manifest=PREDICTS)
    workload = factories.make_workload(version)
    started = post(client, version, "cuda:sm_90")
    run = Run.objects.get()
    assert started.headers["Location"] == f"/runs/{run.pk}/"
    assert (run.purpose, run.target, run.workload) == ("explain", "cuda:sm_90", workload)
    assert "explain" in client.get(f"/runs/{run.pk}/").content.decode()


def test_a_gpu_that_is_not_offered_is_refused_at_the_field(client: Client, version: ModelVersion) -> None:
    worker_row("host cpu", seen=timezone.now(), manifest=PREDICTS)
    refused = post(client, version, "cuda:sm_75")
    assert refused.status_code == 422 and "cuda:sm_75 is not one of the available choices" in refused.content.decode()
    assert not Run.objects.exists()


def asked(version: ModelVersion, target: str) -> Any:
    api = factories.api_for(factories.make_member(version.model.team, "member"))
    return api.post("/api/v1/runs/", {"version": str(version.pk), "purpose": "explain", "target": target})


def test_the_api_starts_one_before_any_worker_has_told_what_it_predicts(version: ModelVersion) -> None:
    answer = asked(version, "cuda:sm_100")
    assert (answer.status_code, answer.json()["purpose"], answer.json()["target"]) == (201, "explain", "cuda:sm_100")


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("cpu", "explain predicts for a GPU: cuda:sm_NN"),
        ("rocm:gfx942", "explain predicts for a GPU: cuda:sm_NN"),
        ("cuda:sm_75", "no worker predicts for cuda:sm_75; there are: cuda:sm_80, cuda:sm_90"),
    ],
)
def test_the_api_refuses_what_cannot_be_predicted_and_names_what_can(
    version: ModelVersion, target: str, said: str
) -> None:
    worker_row("host cpu", seen=timezone.now(), manifest=PREDICTS)
    answer = asked(version, target)
    assert answer.status_code == 400
    assert answer.json()["place"] == "target" and said in answer.json()["detail"]
    assert not Run.objects.exists()


def test_a_run_for_a_gpu_that_measures_needs_no_worker_that_predicts(version: ModelVersion) -> None:
    worker_row("host cpu", seen=timezone.now(), manifest=PREDICTS)
    api = factories.api_for(factories.make_member(version.model.team, "member"))
    answer = api.post("/api/v1/runs/", {"version": str(version.pk), "target": "cuda:sm_75"})
    assert answer.status_code == 201
