"""The upload page as it works without JavaScript, and what it says."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from fuseworks.accounts.models import Team
from fuseworks.registry.models import ModelVersion
from fuseworks.runs.models import Run
from tests.platform import factories
from tests.platform.registry.helpers import SOURCE, text

pytestmark = pytest.mark.django_db


def upload_form(**fields: Any) -> dict[str, Any]:
    file = SimpleUploadedFile("din.py", SOURCE)
    return {"team": "ads-ranking", "model": "", "model_name": "DIN", "file": file, **fields}


def test_the_page_says_what_can_be_uploaded_and_how_from_a_terminal(client: Client, version: ModelVersion) -> None:
    shown = client.get(f"/uploads/new/?team=ads-ranking&model={version.model.pk}")
    body = shown.content.decode()
    for fact in (".pt2", ".onnx", "TorchScript", "torch.export.save", "http://testserver/api/v1/uploads/TEAM/MODEL/"):
        assert fact in text(shown)
    assert 'accept=".pt2,.py,.zip,.onnx"' in body
    assert f'<option value="{version.model.pk}" selected>Ads ranking: DIN</option>' in body
    assert 'data-island="upload"' in body and '"chunkBytes": 16777216' in body


def test_the_island_says_of_a_foreign_format_how_to_export_it_anew(client: Client) -> None:
    island = client.get("/uploads/new/").context["island"]
    for suffix in (".pt", ".pth", ".pkl"):
        assert "which Fuseworks does not read" in island["foreign"][suffix]
        assert "torch.export.save(torch.export.export(" in island["foreign"][suffix]
    assert set(island["foreign"]).isdisjoint(island["accepted"])
    words = island["words"]
    assert (words["noFile"], words["noTeam"]) == ("Choose the model's file.", "Choose a team.")


def test_the_form_uploads_without_javascript(client: Client) -> None:
    done = client.post("/uploads/new/", upload_form())
    version = ModelVersion.objects.get()
    assert done.headers["Location"] == f"/versions/{version.pk}/"
    assert (version.model.name, version.filename, version.size_bytes) == ("DIN", "din.py", 17)
    assert Run.objects.get().purpose == "inspect"


def test_the_form_adds_a_version_to_a_model(client: Client, version: ModelVersion) -> None:
    client.post(
        "/uploads/new/", upload_form(model=str(version.model.pk), model_name="", file=SimpleUploadedFile("b.py", b"2"))
    )
    assert version.model.versions.count() == 2


def test_the_form_is_sent_with_the_token_of_its_page(team: Team) -> None:
    client = factories.client_for(factories.make_member(team), enforce_csrf_checks=True)
    assert client.post("/uploads/new/", upload_form()).status_code == 403
    shown = client.get("/uploads/new/")
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', shown.content.decode())
    assert token is not None
    assert client.post("/uploads/new/", upload_form(csrfmiddlewaretoken=token[1])).status_code == 302


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"file": SimpleUploadedFile("m.pt", b"x")}, "a PyTorch checkpoint or TorchScript"),
        ({"file": SimpleUploadedFile("m.py", b"")}, "The file is empty."),
        ({"file": SimpleUploadedFile("m.zip", b"PK\x03\x04")}, "zip archive is not acceptable"),
        ({"file": ""}, "This field is required."),
        ({"model_name": ""}, "Name the new model"),
        ({"model_name": "a/b"}, "cannot be a model&#x27;s name"),
        ({"team": "nobodys"}, "not one of the available choices"),
    ],
)
def test_a_refused_file_is_said_at_its_field(client: Client, fields: dict[str, Any], message: str) -> None:
    refused = client.post("/uploads/new/", upload_form(**fields))
    assert refused.status_code == 422
    assert message in text(refused)
    if "model_name" not in fields:
        assert 'value="DIN"' in refused.content.decode()
    assert ModelVersion.objects.count() == 0


def test_a_body_larger_than_any_upload_is_refused_unread(client: Client, settings: Any) -> None:
    settings.MAX_UPLOAD_BYTES = 1000
    big = SimpleUploadedFile("m.py", b"x" * (2 << 20))
    refused = client.post("/uploads/new/", upload_form(file=big))
    assert refused.status_code == 413


def test_a_model_of_another_team_is_not_offered(client: Client) -> None:
    foreign = factories.make_model(factories.make_team(), "Secret")
    assert "Secret" not in text(client.get(f"/uploads/new/?model={foreign.pk}"))
    refused = client.post("/uploads/new/", upload_form(model=str(foreign.pk)))
    assert refused.status_code == 422


def test_viewers_are_told_whom_to_ask(team: Team) -> None:
    shown = factories.client_for(factories.make_member(team, "viewer")).get("/uploads/new/")
    assert "Ask the owner of a team" in text(shown)
    assert '<form method="post" enctype' not in shown.content.decode()


def test_the_form_of_a_viewer_is_not_even_read(team: Team) -> None:
    client = factories.client_for(factories.make_member(team, "viewer"))
    refused = client.post("/uploads/new/", upload_form())
    assert (refused.status_code, "Ask the owner of a team" in text(refused)) == (403, True)
    assert refused.wsgi_request._read_started is False
    assert not ModelVersion.objects.exists()


def test_strangers_are_sent_to_sign_in(version: ModelVersion) -> None:
    for address in ("/models/", f"/versions/{version.pk}/", "/uploads/new/"):
        answer = Client().get(address)
        assert answer.headers["Location"].startswith(f"/sign-in/?next={quote(address)}")
    assert Client().post("/uploads/new/", upload_form()).status_code == 302
    assert ModelVersion.objects.count() == 1
