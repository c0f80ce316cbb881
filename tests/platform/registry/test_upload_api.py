"""Uploads over the API: begun by JSON, appended to by PATCH, or sent in one request."""

from __future__ import annotations

import base64
import hashlib
import uuid
from typing import Any

import pytest
from rest_framework.test import APIClient

from fuseworks.accounts.models import Team
from fuseworks.registry import incoming
from fuseworks.registry.models import ModelVersion, Upload
from fuseworks.runs.models import Run
from tests.platform import factories

pytestmark = pytest.mark.django_db
SOURCE = b"class Model: ...\n"
UPLOADS = "/api/v1/uploads/"


@pytest.fixture
def api(team: Team) -> APIClient:
    return factories.api_for(factories.make_token(factories.make_member(team), team))


def begin(api: APIClient, **fields: Any) -> Any:
    body = {"team": "ads-ranking", "model_name": "DIN", "filename": "din.py", "length_bytes": len(SOURCE)}
    return api.post(UPLOADS, {**body, **fields})


def patch(api: APIClient, address: str, data: bytes, offset: int | str | None, **headers: str) -> Any:
    given = {} if offset is None else {"Upload-Offset": str(offset)}
    return api.generic(
        "PATCH", address, data, content_type="application/offset+octet-stream", headers={**given, **headers}
    )


def test_an_upload_in_pieces(api: APIClient) -> None:
    begun = begin(api)
    assert begun.status_code == 201
    address = begun.json()["address"]
    assert begun.headers["Location"] == address == f"http://testserver{UPLOADS}{begun.json()['id']}/"
    assert (begun.json()["offset_bytes"], begun.json()["version"]) == (0, None)

    first = patch(api, address, SOURCE[:5], 0)
    assert (first.status_code, first.headers["Upload-Offset"], first.content) == (204, "5", b"")
    head = api.head(address)
    assert (head.status_code, head.headers["Upload-Offset"], head.headers["Upload-Length"]) == (200, "5", "17")
    assert head.headers["Cache-Control"] == "no-store"
    assert head.headers["Tus-Resumable"] == "1.0.0"

    last = patch(api, address, SOURCE[5:], 5)
    version = ModelVersion.objects.get()
    assert (last.status_code, last.headers["Upload-Offset"]) == (200, "17")
    assert last.json()["version"] == str(version.pk)
    assert version.sha256 == hashlib.sha256(SOURCE).hexdigest()
    # the address tells its version for as long as the upload is remembered
    assert api.get(address).json()["version"] == str(version.pk)
    assert api.head(address).headers["Upload-Offset"] == "17"
    shown = api.get(f"/api/v1/versions/{version.pk}/").json()
    assert shown["inspect_run"] == str(Run.objects.get(purpose="inspect").pk)
    assert (shown["model"]["name"], shown["model"]["team"]) == ("DIN", "ads-ranking")


def test_a_client_that_missed_the_last_answer_gets_it_again(api: APIClient) -> None:
    address = begin(api).json()["address"]
    version = patch(api, address, SOURCE, 0).json()["version"]
    again = patch(api, address, b"", 17)
    assert (again.status_code, again.json()["version"]) == (200, version)
    assert patch(api, address, b"x", 17).status_code == 410
    assert ModelVersion.objects.count() == 1


def test_a_new_version_of_a_model_needs_no_team(api: APIClient, team: Team) -> None:
    model = factories.make_model(team)
    begun = api.post(UPLOADS, {"model": str(model.pk), "filename": "din.py", "length_bytes": 17})
    assert begun.status_code == 201
    patch(api, begun.json()["address"], SOURCE, 0)
    assert ModelVersion.objects.get().model == model


def test_a_whole_file_in_one_request_as_curl_sends_it(api: APIClient) -> None:
    sent = api.generic("PUT", f"{UPLOADS}ads-ranking/DIN%20v2/din.py", SOURCE, content_type="")
    assert sent.status_code == 201
    version = ModelVersion.objects.get()
    assert sent.json()["id"] == str(version.pk)
    assert sent.headers["Location"] == f"http://testserver/versions/{version.pk}/"
    assert (version.model.name, version.filename, version.sha256) == (
        "DIN v2",
        "din.py",
        hashlib.sha256(SOURCE).hexdigest(),
    )


@pytest.mark.parametrize("content_type", ["application/x-www-form-urlencoded", "application/json", "text/plain"])
def test_no_type_of_body_is_parsed(api: APIClient, content_type: str) -> None:
    """`curl --data-binary` says that it sends a form."""
    sent = api.generic("PUT", f"{UPLOADS}ads-ranking/din/din.py", SOURCE, content_type=content_type)
    assert sent.status_code == 201
    assert ModelVersion.objects.get().size_bytes == 17


def test_one_request_may_name_the_digest(api: APIClient) -> None:
    address = f"{UPLOADS}ads-ranking/din/din.py?sha256="
    refused = api.generic("PUT", address + "0" * 64, SOURCE)
    assert (refused.status_code, refused.json()["id"]) == (422, "registry:user:checksum")
    assert Upload.objects.count() == 0
    assert api.generic("PUT", address + hashlib.sha256(SOURCE).hexdigest(), SOURCE).status_code == 201


def test_a_body_larger_than_what_django_reads_into_memory_passes(api: APIClient, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    data = b"# " + b"x" * 100_000
    sent = api.generic("PUT", f"{UPLOADS}ads-ranking/din/din.py", data, content_type="application/octet-stream")
    assert sent.status_code == 201
    assert ModelVersion.objects.get().size_bytes == 100_002


def test_a_browser_with_a_session_needs_its_csrf_token(team: Team) -> None:
    api = factories.api_for(factories.make_member(team), enforce_csrf_checks=True)
    assert begin(api).status_code == 403
    api.get("/models/")  # any page sets no cookie by itself; a form does
    api.get("/uploads/new/")
    token = api.cookies["csrftoken"].value
    body = {"team": "ads-ranking", "model_name": "DIN", "filename": "din.py", "length_bytes": 17}
    begun = api.post(UPLOADS, body, headers={"X-CSRFToken": token})
    assert begun.status_code == 201
    assert patch(api, begun.json()["address"], SOURCE, 0).status_code == 403
    done = patch(api, begun.json()["address"], SOURCE, 0, **{"X-CSRFToken": token})
    assert done.status_code == 200


@pytest.mark.parametrize(
    ("offset", "status", "id_"),
    [
        (3, 409, "registry:usage:wrong-offset"),
        (None, 400, "core:usage:invalid"),
        ("-1", 400, "core:usage:invalid"),
        ("nine", 400, "core:usage:invalid"),
    ],
)
def test_a_wrong_offset_is_a_problem_with_the_right_one(api: APIClient, offset: Any, status: int, id_: str) -> None:
    address = begin(api).json()["address"]
    answer = patch(api, address, SOURCE, offset)
    assert (answer.status_code, answer.json()["id"]) == (status, id_)
    assert answer.headers["Content-Type"] == "application/problem+json"
    if status == 409:
        assert answer.json()["offset_bytes"] == 0
    assert api.head(address).headers["Upload-Offset"] == "0"


def test_a_body_of_unknown_length_is_refused(api: APIClient) -> None:
    address = begin(api).json()["address"]
    answer = api.generic("PATCH", address, b"", headers={"Upload-Offset": "0", "Transfer-Encoding": "chunked"})
    assert (answer.status_code, answer.json()["id"]) == (411, "registry:usage:length-required")


def test_a_checksum_is_asked_for_in_tus_form(api: APIClient) -> None:
    address = begin(api).json()["address"]
    right = "sha256 " + base64.b64encode(hashlib.sha256(SOURCE[:5]).digest()).decode()
    wrong = "sha256 " + base64.b64encode(bytes(32)).decode()
    assert patch(api, address, SOURCE[:5], 0, **{"Upload-Checksum": wrong}).status_code == 460
    for malformed in ("md5 abcd", "sha256 ???", "sha256 YWJj"):
        assert patch(api, address, SOURCE[:5], 0, **{"Upload-Checksum": malformed}).status_code == 400
    assert patch(api, address, SOURCE[:5], 0, **{"Upload-Checksum": right}).status_code == 204


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"filename": "m.pth"}, 422),
        ({"length_bytes": 3 << 20}, 413),
        ({"length_bytes": -1}, 400),
        ({"length_bytes": "many"}, 400),
        ({"model_name": "a\0b"}, 400),
        ({"sha256": "0" * 63}, 422),
        ({"team": "nobodys"}, 404),
        ({"model": str(uuid.uuid4())}, 404),
    ],
)
def test_a_bad_beginning_is_a_problem(api: APIClient, fields: dict[str, Any], status: int) -> None:
    answer = begin(api, **fields)
    assert answer.status_code == status
    assert answer.json()["remedy"]
    assert Upload.objects.count() == 0


def test_neither_model_nor_name_is_refused_by_field(api: APIClient) -> None:
    answer = api.post(UPLOADS, {"team": "ads-ranking", "filename": "m.py", "length_bytes": 1})
    assert answer.status_code == 400
    assert list(answer.json()["fields"]) == ["model"]


def test_the_quota_is_507_with_a_remedy(api: APIClient, settings: Any) -> None:
    settings.TEAM_QUOTA_BYTES = 16
    answer = begin(api)
    assert (answer.status_code, answer.json()["id"]) == (507, "registry:usage:quota")
    assert "larger quota" in answer.json()["remedy"]


def test_the_same_bytes_again_are_409_with_the_versions_id(api: APIClient) -> None:
    address = f"{UPLOADS}ads-ranking/din/din.py"
    first = api.generic("PUT", address, SOURCE).json()
    again = api.generic("PUT", address, SOURCE)
    assert (again.status_code, again.json()["version"]) == (409, first["id"])


def test_cancelling_and_then_asking(api: APIClient) -> None:
    address = begin(api).json()["address"]
    assert api.delete(address).status_code == 204
    assert api.head(address).status_code == 404
    assert patch(api, address, SOURCE, 0).status_code == 404


def test_the_list_has_ones_own_open_uploads_alone(api: APIClient, team: Team) -> None:
    mine = begin(api).json()["id"]
    done = begin(api, filename="b.py").json()
    patch(api, done["address"], SOURCE, 0)
    begin(factories.api_for(factories.make_member(team)), filename="theirs.py")
    assert [row["id"] for row in api.get(UPLOADS).json()["results"]] == [mine]


def test_a_token_that_only_reads_uploads_nothing(team: Team) -> None:
    user = factories.make_member(team)
    reading = factories.api_for(factories.make_token(user, team, scopes=("read",)))
    answer = begin(reading)
    assert (answer.status_code, answer.json()["id"]) == (403, "core:usage:token-scope")


def test_a_stranger_finds_no_upload(api: APIClient) -> None:
    address = begin(api).json()["address"]
    stranger = factories.api_for(factories.make_member(factories.make_team("other")))
    assert stranger.head(address).status_code == 404
    assert patch(stranger, address, SOURCE, 0).status_code == 404
    assert stranger.delete(address).status_code == 404
    assert begin(stranger).status_code == 404
    put = stranger.generic("PUT", f"{UPLOADS}ads-ranking/din/din.py", SOURCE)
    assert put.status_code == 404
    assert APIClient().head(address).status_code == 401


def test_an_upload_whose_bytes_were_lost_does_not_hide_the_others(api: APIClient) -> None:
    lost, kept = (begin(api, model_name=name).json() for name in ("Lost", "Kept"))
    incoming.path_of(Upload.objects.get(pk=lost["id"])).unlink()
    listed = {one["id"]: one["offset_bytes"] for one in api.get(UPLOADS).json()["results"]}
    assert listed == {lost["id"]: None, kept["id"]: 0}
    assert api.get(lost["address"]).status_code == 410
