"""What an upload is refused for: before a byte is sent, and once all of them are there."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from fuseworks.accounts.models import Team
from fuseworks.accounts.permissions import Actor
from fuseworks.registry import incoming
from fuseworks.registry.models import Model, ModelVersion, Upload
from fuseworks.registry.services import (
    version_delete,
)
from fuseworks.registry.usage import usage
from tests.platform import factories
from tests.platform.registry.helpers import SOURCE, append, begin, incoming_files, refused

pytestmark = pytest.mark.django_db
MIB = 1 << 20


# ---- refused before a byte is sent -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "id_", "status"),
    [
        ({"filename": "m.pt"}, "registry:user:foreign", 422),
        ({"filename": "m.exe"}, "registry:user:unknown-format", 422),
        ({"filename": "a\nb.py"}, "registry:usage:filename", 422),
        ({"length_bytes": 0}, "registry:user:empty", 422),
        ({"length_bytes": 2 * MIB + 1}, "registry:usage:too-large", 413),
        ({"filename": "m.pt2", "length_bytes": (8 << 30) + 1}, "registry:usage:too-large", 413),
        ({"expected_sha256": "abc"}, "registry:usage:sha256", 422),
        ({"model_name": ""}, "registry:usage:model-name", 422),
        ({"model_name": "a/b"}, "registry:usage:model-name", 422),
        ({"model_name": "!!!"}, "registry:usage:model-name", 422),
        ({"model_name": "x" * 81}, "registry:usage:model-name", 422),
    ],
)
def test_what_cannot_become_a_version_is_refused_at_the_beginning(
    actor: Actor, team: Team, storage: Path, fields: dict[str, Any], id_: str, status: int
) -> None:
    error = refused(lambda: begin(actor, team, **fields))
    assert (error.id, error.status) == (id_, status)
    assert Upload.objects.count() == 0
    assert not storage.exists() or incoming_files(storage) == []


def test_the_sites_own_limit_holds_below_the_formats(actor: Actor, team: Team, settings: Any) -> None:
    settings.MAX_UPLOAD_BYTES = 10
    assert refused(lambda: begin(actor, team, 11)).id == "registry:usage:too-large"
    begin(actor, team, 10)


def test_the_quota_counts_versions_and_what_open_uploads_announced(actor: Actor, team: Team, settings: Any) -> None:
    settings.TEAM_QUOTA_BYTES = 20
    append(actor, begin(actor, team, 6), b"123456")
    begin(actor, team, 10, filename="b.py")
    assert usage(team=team).stored_bytes == 16
    error = refused(lambda: begin(actor, team, 5, filename="c.py"))
    assert (error.id, error.status) == ("registry:usage:quota", 507)
    assert "Delete versions" in error.remedy
    version_delete(actor=Actor(factories.make_member(team, "maintainer")), version=_ended(ModelVersion.objects.get()))
    begin(actor, team, 5, filename="c.py")


def _ended(version: ModelVersion) -> ModelVersion:
    version.runs.update(status="succeeded")
    return version


def test_a_team_may_have_a_quota_of_its_own(actor: Actor, team: Team) -> None:
    team.quota_bytes = 16
    team.save()
    assert refused(lambda: begin(actor, team, 17)).id == "registry:usage:quota"
    begin(actor, team, 16)


def test_no_room_on_the_disk_is_said_before_a_byte_is_sent(
    actor: Actor, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Usage:
        free = incoming.KEPT_FREE_BYTES + 16

    monkeypatch.setattr("fuseworks.core.storage.shutil.disk_usage", lambda path: Usage)
    assert refused(lambda: begin(actor, team, 17)).id == "registry:ours:disk-full"
    assert Upload.objects.count() == 0
    begin(actor, team, 16)


def test_a_model_of_another_team_takes_no_upload(actor: Actor, team: Team) -> None:
    other = factories.make_team()
    factories.make_member(other, user=actor.user)
    foreign = factories.make_model(other)
    assert refused(lambda: begin(actor, team, model=foreign)).status == 404


# ---- refused at the end: it ends the upload --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "data", "id_"),
    [
        ({"filename": "m.onnx"}, b"\x80\x04pickle", "registry:user:foreign"),
        ({"filename": "m.pt2"}, b"import torch", "registry:user:wrong-suffix"),
        ({"filename": "m.zip"}, b"PK\x03\x04 and nothing", "registry:user:bad-zip"),
        ({"expected_sha256": "0" * 64}, SOURCE, "registry:user:checksum"),
    ],
)
def test_a_file_that_is_wrong_ends_its_upload(
    actor: Actor, team: Team, storage: Path, fields: dict[str, Any], data: bytes, id_: str
) -> None:
    upload = begin(actor, team, len(data), **fields)
    error = refused(lambda: append(actor, upload, data))
    assert (error.id, error.status) == (id_, 422)
    assert Upload.objects.count() == ModelVersion.objects.count() == Model.objects.count() == 0
    assert incoming_files(storage) == []
    assert refused(lambda: append(actor, upload, b"x")).id == "registry:usage:upload-over"


def test_the_same_bytes_again_are_refused_with_the_version_that_has_them(actor: Actor, team: Team) -> None:
    append(actor, begin(actor, team), SOURCE)
    version = ModelVersion.objects.get()
    error = refused(lambda: append(actor, begin(actor, team, filename="other.py"), SOURCE))
    assert (error.id, error.status) == ("registry:usage:same-bytes", 409)
    assert error.extra == {"version": str(version.pk), "address": f"/versions/{version.pk}/"}
    assert str(version.pk) in error.remedy
    assert ModelVersion.objects.count() == 1
    # another model may have them, and so may this one after they were deleted
    append(actor, begin(actor, team, model_name="DIN copy"), SOURCE)
    version_delete(actor=Actor(factories.make_member(team, "maintainer")), version=_ended(version))
    append(actor, begin(actor, team), SOURCE)
    assert sorted(v.number for v in version.model.versions.all()) == [1, 2]


def test_an_expected_digest_in_capitals_holds(actor: Actor, team: Team) -> None:
    append(actor, begin(actor, team, expected_sha256=hashlib.sha256(SOURCE).hexdigest().upper()), SOURCE)
    assert ModelVersion.objects.count() == 1
