"""How traces come in: in pieces, in one request, by the page's form; and what is refused by name."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from rest_framework.test import APIClient

from fuseworks.accounts.models import Team
from fuseworks.core.storage import open_stored
from fuseworks.registry.models import Model, ModelVersion, Upload
from fuseworks.runs.models import Run
from tests.platform import factories
from tests.platform.registry.helpers import text
from tests.platform.traces.support import GZIPPED, NAME, TRACE, make_job, make_trace, zipped

pytestmark = pytest.mark.django_db
API = "/api/v1/"


@pytest.fixture(autouse=True)
def _storage(storage: Path) -> None:
    """Each test has one of its own."""


@pytest.fixture
def api(team: Team) -> APIClient:
    return factories.api_for(factories.make_token(factories.make_member(team), team))


@pytest.fixture
def client(team: Team) -> Client:
    return factories.client_for(factories.make_member(team))


def begin(api: APIClient, **fields: Any) -> Any:
    body = {"team": "ads-ranking", "kind": "job", "model_name": "Nightly", "filename": NAME}
    return api.post(f"{API}uploads/", {**body, "length_bytes": len(GZIPPED), **fields})


def put(api: APIClient, name: str = NAME, data: bytes = GZIPPED, job: str = "Nightly") -> Any:
    return api.generic("PUT", f"{API}traces/ads-ranking/{job}/{name}", data, content_type="application/octet-stream")


def form(*files: SimpleUploadedFile, **fields: Any) -> dict[str, Any]:
    return {"team": "ads-ranking", "model": "", "model_name": "Nightly", "file": list(files), **fields}


def test_a_trace_in_pieces_becomes_the_first_of_a_new_job_and_is_diagnosed(api: APIClient) -> None:
    begun = begin(api)
    assert (begun.status_code, begun.json()["kind"]) == (201, "job")
    headers = {"Upload-Offset": "0"}
    kind = "application/offset+octet-stream"
    done = api.generic("PATCH", begun.json()["address"], GZIPPED, content_type=kind, headers=headers)
    trace = ModelVersion.objects.get()
    assert (done.status_code, done.json()["version"]) == (200, str(trace.pk))
    assert (trace.model.kind, trace.model.name, trace.format, trace.number) == ("job", "Nightly", "trace", 1)
    run = Run.objects.get()
    assert (run.purpose, run.version, run.target, run.workload, run.against) == ("diagnose", trace, "cpu", None, None)


def test_a_trace_in_one_request_is_answered_with_its_run(api: APIClient) -> None:
    done = put(api)
    run = Run.objects.get()
    answer = done.json()
    assert (done.status_code, done.headers["Location"]) == (201, answer["page"])
    assert answer["page"] == f"http://testserver/traces/{answer['id']}/"
    assert (answer["team"], answer["job_name"], answer["run"], answer["run_status"]) == (
        "ads-ranking", "Nightly", str(run.pk), "queued",
    )  # fmt: skip
    assert answer["diagnosis"] is None and answer["sha256"] == hashlib.sha256(GZIPPED).hexdigest()


def test_the_same_bytes_are_no_second_trace_of_a_job(api: APIClient) -> None:
    first = put(api).json()["id"]
    again = put(api)
    assert (again.status_code, again.json()["id"], again.json()["version"]) == (
        409, "registry:usage:same-bytes", first,
    )  # fmt: skip
    assert put(api, job="Other job").status_code == 201


def test_a_job_and_a_model_may_share_a_name_and_never_a_version(api: APIClient, team: Team) -> None:
    model = factories.make_model(team, "Nightly")
    put(api)
    job = Model.objects.get(kind="job")
    assert (job.slug, model.slug, model.versions.count()) == ("nightly", "nightly", 0)
    # the kind of what is named goes before the kind that is asked for
    wrong = begin(api, model=str(model.pk), kind="job")
    assert (wrong.status_code, wrong.json()["id"]) == (422, "registry:user:foreign")
    python = begin(api, model=str(job.pk), filename="model.py", kind="model")
    assert (python.status_code, python.json()["id"]) == (422, "registry:user:no-trace")


@pytest.mark.parametrize(
    ("name", "data", "id_", "told"),
    [
        ("model.pt2", b"PK", "registry:user:no-trace", "model.pt2 is no trace of torch.profiler: it is a model"),
        ("t.json", b"hello", "registry:user:no-trace", "t.json is no trace of torch.profiler: it is no JSON document."),
        ("t.json.gz", TRACE, "registry:user:no-trace", "it is no gzip file"),
        ("t.zip", zipped(), "registry:user:trace-zip", "The archive of traces is not acceptable"),
        ("t.json", b"", "registry:user:empty-trace", "The file is empty."),
    ],
)
def test_a_file_of_another_kind_is_refused_by_name_with_a_remedy(
    api: APIClient, storage: Path, name: str, data: bytes, id_: str, told: str
) -> None:
    refused = put(api, name, data)
    assert (refused.status_code, refused.json()["id"], refused.json()["place"]) == (422, id_, name)
    assert told in refused.json()["detail"]
    assert "export_chrome_trace" in refused.json()["remedy"] or "zip traces.zip" in refused.json()["remedy"]
    assert not ModelVersion.objects.exists() and not Upload.objects.exists() and not Run.objects.exists()


def test_too_large_a_trace_is_refused_before_its_bytes_are_sent(api: APIClient) -> None:
    refused = begin(api, length_bytes=(1 << 30) + 1)
    assert (refused.status_code, refused.json()["id"]) == (413, "registry:usage:large-trace")
    assert "1024 MiB is the limit" in refused.json()["detail"]
    assert begin(api, filename="ranks.zip", length_bytes=(1 << 30) + 1).status_code == 201


def test_traces_count_against_the_teams_quota(api: APIClient, team: Team) -> None:
    team.quota_bytes = len(GZIPPED)
    team.save()
    assert put(api).status_code == 201
    assert begin(api, model_name="Other job").json()["id"] == "registry:usage:quota"


def test_the_form_takes_one_trace_without_javascript(client: Client) -> None:
    done = client.post("/traces/new/", form(SimpleUploadedFile(NAME, GZIPPED)))
    trace = ModelVersion.objects.get()
    assert done.headers["Location"] == f"/traces/{trace.pk}/"
    assert (trace.filename, trace.size_bytes, Run.objects.get().purpose) == (NAME, len(GZIPPED), "diagnose")


def test_several_files_are_the_ranks_of_one_trace(client: Client) -> None:
    client.post(
        "/traces/new/", form(*(SimpleUploadedFile("rank0.json", data) for data in (TRACE, b'{"traceEvents": [ ]}')))
    )
    trace = ModelVersion.objects.get()
    assert (trace.filename, trace.format) == ("traces.zip", "trace")
    with open_stored(trace.storage_key) as file, ZipFile(file) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {
            "rank0.json": TRACE,
            "1-rank0.json": b'{"traceEvents": [ ]}',
        }


def test_the_form_tells_at_the_file_what_is_wrong_with_it(client: Client) -> None:
    refused = client.post("/traces/new/", form(SimpleUploadedFile("weights.pt", b"\x80\x02")))
    assert refused.status_code == 422
    assert "weights.pt is no trace of torch.profiler: it is a PyTorch checkpoint or TorchScript." in text(refused)
    assert "export_chrome_trace" in text(refused)


def test_the_page_offers_jobs_and_no_models(client: Client, team: Team) -> None:
    factories.make_model(team, "DIN")
    job = make_job(team)
    shown = client.get(f"/traces/new/?team=ads-ranking&model={job.pk}")
    assert f'<option value="{job.pk}" selected>Ads ranking: Nightly</option>' in shown.content.decode()
    assert "Ads ranking: DIN" not in text(shown)
    assert 'accept=".json,.json.gz,.zip"' in shown.content.decode() and " multiple" in shown.content.decode()
    island = shown.context["island"]
    assert (island["kind"], island["zip"]) == ("job", "traces.zip")
    assert "Ads ranking: Nightly" not in text(client.get("/uploads/new/"))


def test_the_lists_of_models_hold_no_jobs(client: Client, api: APIClient, team: Team) -> None:
    trace = make_trace(make_job(team))
    assert "Nightly" not in text(client.get("/models/")) and "Nightly" not in text(client.get("/gates/"))
    assert [row["name"] for row in api.get(f"{API}models/").json()["results"]] == []
    assert [row["name"] for row in api.get(f"{API}models/?kind=job").json()["results"]] == ["Nightly"]
    assert api.get(f"{API}models/{trace.model_id}/").json()["kind"] == "job"
    version = factories.make_version(factories.make_model(team, "DIN"))
    assert str(trace.pk) not in client.get(f"/versions/{version.pk}/").content.decode()
