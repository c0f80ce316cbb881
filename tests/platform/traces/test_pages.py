"""The pages of traces: lists, one trace, its diagnosis, each finding, the comparison, what is not there yet."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.test import Client

from fuseworks.accounts.models import Team
from fuseworks.registry.models import ModelVersion
from fuseworks.runs.models import Run
from optimizer.coordinator.diagnose import diagnosed
from optimizer.result import Diagnosis
from tests.platform import factories
from tests.platform.registry.helpers import text
from tests.platform.traces import support

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(team: Team) -> Client:
    return factories.client_for(factories.make_member(team))


@pytest.fixture
def trace(team: Team, storage: Path) -> ModelVersion:
    return support.make_trace(support.make_job(team))


def test_the_empty_list_says_what_to_do(client: Client, team: Team) -> None:
    shown = text(client.get("/traces/"))
    assert "Your teams have no traces yet" in shown and "export_chrome_trace" in shown
    assert "Upload traces" in shown
    viewer = factories.client_for(factories.make_member(team, "viewer"))
    assert "Upload traces" not in text(viewer.get("/traces/"))


def test_the_list_tells_of_each_trace_what_its_diagnosis_says(client: Client, trace: ModelVersion) -> None:
    run = support.diagnosis_run(trace, support.slow())
    shown = client.get("/traces/")
    assert "The GPU is busy for 83% of" in text(shown) and "Nightly v1" in text(shown)
    assert f'href="/runs/{run.pk}/diagnosis/"' in shown.content.decode()
    assert "Nightly" in text(client.get("/traces/?q=night&team=ads-ranking"))
    assert "No trace fits" in text(client.get("/traces/?q=other"))


def test_a_trace_says_how_far_its_diagnosis_is_and_then_what_it_found(client: Client, trace: ModelVersion) -> None:
    run = factories.make_run(trace, purpose="diagnose")
    waiting = client.get(f"/traces/{trace.pk}/")
    assert f'hx-get="/runs/{run.pk}/live/"' in waiting.content.decode() and "Waits in the queue." in text(waiting)
    run.delete()
    support.diagnosis_run(trace, support.slow())
    assert "Where the time goes, and what would mend it" in text(client.get(f"/traces/{trace.pk}/"))


def test_the_original_can_be_downloaded_and_it_says_how_to_open_it(client: Client, trace: ModelVersion) -> None:
    shown = client.get(f"/traces/{trace.pk}/")
    assert "ui.perfetto.dev" in text(shown) and f'href="/versions/{trace.pk}/file/"' in shown.content.decode()
    file = client.get(f"/versions/{trace.pk}/file/")
    assert b"".join(file) == support.GZIPPED  # type: ignore[arg-type]
    assert 'filename="rank0.json.gz"' in file.headers["Content-Disposition"]


def test_addresses_of_versions_models_and_comparisons_lead_to_its_own(client: Client, trace: ModelVersion) -> None:
    run = support.diagnosis_run(trace, support.slow())
    moved = {
        f"/versions/{trace.pk}/": f"/traces/{trace.pk}/",
        f"/models/{trace.model_id}/": "/traces/?q=Nightly&team=ads-ranking",
        f"/runs/{run.pk}/comparison/": f"/runs/{run.pk}/diagnosis/",
    }
    assert {address: client.get(address).headers["Location"] for address in moved} == moved
    assert f'href="/runs/{run.pk}/diagnosis/"' in client.get(f"/runs/{run.pk}/").content.decode()


def test_the_diagnosis_has_a_timeline_findings_facts_and_exports(client: Client, trace: ModelVersion) -> None:
    diagnosis = support.slow()
    run = support.diagnosis_run(trace, diagnosis)
    answer = client.get(f"/runs/{run.pk}/diagnosis/")
    shown, body = text(answer), answer.content.decode()
    assert diagnosis.summary in shown
    assert 'class="part-compute"' in body and 'class="part-data_loading"' in body and "style=" not in body
    first = diagnosis.findings[0]
    assert f'href="/runs/{run.pk}/diagnosis/data_loading/"' in body and first.title in shown
    assert "the GPU is busy 83." in shown and "from launch to kernel" in shown
    assert 'href="?format=json"' in body


def test_findings_are_filtered_by_the_address(client: Client, trace: ModelVersion) -> None:
    run = support.diagnosis_run(trace, support.two_ranks())
    address = f"/runs/{run.pk}/diagnosis/"
    link = f'href="{address}data_loading/"'
    for query, is_there in (("kind=idle", True), ("kind=kernels", False), ("rank=0", False), ("rank=1", True)):
        assert (link in client.get(f"{address}?{query}").content.decode()) is is_there, query
    none = client.get(f"{address}?severity=info&kind=communication")
    assert "No finding fits. Ask for less." in text(none) and "Show all findings" in text(none)


def test_several_ranks_are_told_apart_and_each_has_its_timeline(client: Client, trace: ModelVersion) -> None:
    run = support.diagnosis_run(trace, support.two_ranks())
    shown = text(client.get(f"/runs/{run.pk}/diagnosis/"))
    assert "Busy and idle: rank 0" in shown and "collectives that all of them share" in shown
    assert "Busy and idle: rank 1" in text(client.get(f"/runs/{run.pk}/diagnosis/?rank=1"))


def test_a_finding_has_an_address_of_its_own_with_evidence_and_the_remedy_in_steps(
    client: Client, trace: ModelVersion
) -> None:
    diagnosis = support.slow()
    run = support.diagnosis_run(trace, diagnosis)
    first = diagnosis.findings[0]
    answer = client.get(f"/runs/{run.pk}/diagnosis/{first.rule}/")
    shown, body = text(answer), answer.content.decode()
    assert first.title in shown and first.threshold in answer.context["finding"].threshold
    for step in first.steps:
        assert " ".join(step.split()) in shown.replace("&quot;", '"').replace("&#x27;", "'")
    assert 'class="part-data_loading"' in body and 'class="part-compute is-dim"' in body
    assert f"number 1 of {len(diagnosis.findings)}" in shown
    assert client.get(f"/runs/{run.pk}/diagnosis/launch_bound/").status_code == 404


def test_two_traces_are_compared_with_the_share_that_each_operation_explains(
    client: Client, trace: ModelVersion
) -> None:
    before = support.make_trace(trace.model, support.TRACE, filename="before.json")
    found = diagnosed(["after"], [support.read("after", waits_for_data=True)], [support.read("before.json")])
    run = support.diagnosis_run(trace, found, against=before)
    answer = client.get(f"/runs/{run.pk}/diagnosis/")
    shown = text(answer)
    assert "Nightly v1 against Nightly v2" in shown and "(idle: data loading)" in shown
    assert "+2.00 ms" in shown and 'class="is-slower"' in answer.content.decode()


def test_the_form_compares_with_another_trace_of_the_team(client: Client, trace: ModelVersion) -> None:
    assert "The team has no other trace." in text(client.get(f"/traces/{trace.pk}/"))
    before = support.make_trace(trace.model, support.TRACE, filename="before.json")
    assert "Nightly v2 · before.json" in text(client.get(f"/traces/{trace.pk}/"))
    started = client.post(f"/traces/{trace.pk}/diagnose/", {"against": before.pk})
    run = Run.objects.get()
    assert started.headers["Location"] == f"/runs/{run.pk}/"
    assert (run.purpose, run.version, run.against) == ("diagnose", trace, before)
    assert client.post(f"/traces/{trace.pk}/diagnose/", {"against": ""}).status_code == 422
    model = factories.make_version(factories.make_model(trace.model.team))
    assert client.post(f"/traces/{trace.pk}/diagnose/", {"against": model.pk}).status_code == 422
    again = client.post(f"/traces/{trace.pk}/diagnose/")
    assert again.status_code == 302 and Run.objects.filter(against=None).count() == 1


def test_without_a_diagnosis_the_page_says_why(client: Client, trace: ModelVersion) -> None:
    waiting = factories.make_run(trace, purpose="diagnose")
    assert "There is no diagnosis yet" in text(client.get(f"/runs/{waiting.pk}/diagnosis/"))
    assert client.get(f"/runs/{waiting.pk}/diagnosis/?format=json").status_code == 404
    problem = {
        "id": "diagnosing:user:foreign", "side": "user", "message": "This is a notebook.", "remedy": "Record it anew.",
        "context": {"what": "a notebook"},
    }  # fmt: skip
    failed = factories.make_run(trace, purpose="diagnose", status="failed", problem=problem)
    shown = text(client.get(f"/runs/{failed.pk}/diagnosis/"))
    assert "This run left no diagnosis" in shown and "a notebook" in shown and "Record it anew" in shown


def test_the_export_is_what_the_command_line_prints(client: Client, trace: ModelVersion) -> None:
    diagnosis = support.slow()
    run = support.diagnosis_run(trace, diagnosis)
    answer = client.get(f"/runs/{run.pk}/diagnosis/?format=json")
    assert Diagnosis.model_validate(json.loads(answer.content)) == diagnosis
    assert (
        answer.headers["Content-Disposition"] == f'attachment; filename="nightly-v1-diagnosis-{str(run.pk)[:8]}.json"'
    )
    assert client.get(f"/runs/{run.pk}/diagnosis/?format=pdf").status_code == 404


def test_a_run_of_another_purpose_has_no_diagnosis(client: Client, version: ModelVersion) -> None:
    run = factories.make_run(version, status="succeeded")
    factories.make_result(run)
    assert client.get(f"/runs/{run.pk}/diagnosis/").status_code == 404


def test_names_out_of_a_trace_are_text_and_no_markup(client: Client, trace: ModelVersion) -> None:
    rank = support.read("<script>alert(1)</script>.json", waits_for_data=True)
    run = support.diagnosis_run(trace, diagnosed(["t"], [rank, support.read("other.json", rank=1)]))
    for address in ("", "data_loading/"):
        assert "<script>alert" not in client.get(f"/runs/{run.pk}/diagnosis/{address}").content.decode()


def test_traces_of_another_unit_are_not_there(trace: ModelVersion) -> None:
    run = support.diagnosis_run(trace, support.slow())
    stranger = factories.client_for(factories.make_member(factories.make_team()))
    assert "Nightly" not in text(stranger.get("/traces/"))
    for address in (
        f"/traces/{trace.pk}/", f"/versions/{trace.pk}/file/", f"/runs/{run.pk}/diagnosis/",
        f"/runs/{run.pk}/diagnosis/data_loading/", f"/runs/{run.pk}/diagnosis/?format=json",
    ):  # fmt: skip
        assert stranger.get(address).status_code == 404, address
    assert stranger.post(f"/traces/{trace.pk}/diagnose/").status_code == 404


def test_a_version_that_is_no_trace_has_no_page_here(client: Client, version: ModelVersion) -> None:
    assert client.get(f"/traces/{version.pk}/").status_code == 404
