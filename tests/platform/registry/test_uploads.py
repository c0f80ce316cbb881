"""Uploads as the services know them: offsets, writers, quotas, checks of the whole file, and what the end leaves."""

from __future__ import annotations

import hashlib
import io
import tracemalloc
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.http.request import UnreadablePostError
from django.utils import timezone

from fuseworks.accounts.models import AuditEntry, Team
from fuseworks.accounts.permissions import Actor
from fuseworks.core.storage import open_stored
from fuseworks.registry import incoming
from fuseworks.registry.models import Model, ModelVersion, Upload
from fuseworks.registry.services import (
    upload_append,
    upload_cancel,
    upload_finish,
    upload_whole,
)
from fuseworks.runs.models import Run
from tests.platform import factories
from tests.platform.registry.helpers import SOURCE, append, begin, incoming_files, refused

pytestmark = pytest.mark.django_db
MIB = 1 << 20


class Cut:
    """A sender that goes away after `size` bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = io.BytesIO(data)

    def read(self, size: int, /) -> bytes:
        block = self.data.read(size)
        if not block:
            raise UnreadablePostError("gone")
        return block


# ---- the whole way ---------------------------------------------------------------------------------------------------


def test_a_file_in_two_pieces_becomes_a_version_and_its_inspection_is_queued(
    actor: Actor, team: Team, storage: Path
) -> None:
    upload = begin(actor, team)
    assert append(actor, upload, SOURCE[:5]) == 5
    assert ModelVersion.objects.count() == 0
    assert append(actor, upload, SOURCE[5:], offset=5) == 17
    version = ModelVersion.objects.get()
    assert (version.number, version.format, version.size_bytes, version.filename) == (1, "py", 17, "din.py")
    assert version.sha256 == hashlib.sha256(SOURCE).hexdigest()
    assert version.uploaded_by == actor.user
    assert (version.model.name, version.model.slug, version.model.team) == ("DIN", "din", team)
    with open_stored(version.storage_key) as file:
        assert file.read() == SOURCE
    assert incoming_files(storage) == []
    run = Run.objects.get()
    assert (run.version, run.purpose, run.status, run.created_by) == (version, "inspect", "queued", actor.user)
    assert AuditEntry.objects.filter(action="version.upload", object_id=version.pk, actor=actor.user).count() == 1


def test_the_next_file_of_a_name_is_the_next_version(actor: Actor, team: Team) -> None:
    first = upload_whole(
        actor=actor, team=team, filename="a.py", stream=io.BytesIO(b"1"), length_bytes=1, model_name="DIN"
    )
    second = upload_whole(
        actor=actor, team=team, filename="b.py", stream=io.BytesIO(b"2"), length_bytes=1, model_name="din"
    )
    third = upload_whole(
        actor=actor, team=team, filename="c.py", stream=io.BytesIO(b"3"), length_bytes=1, model=first.model
    )
    assert [first.number, second.number, third.number] == [1, 2, 3]
    assert Model.objects.count() == 1


def test_one_piece_is_hashed_on_its_way_and_not_read_again(
    actor: Actor, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming, "sha256_of", lambda file: pytest.fail("it was read again"))
    upload = begin(actor, team)
    append(actor, upload, SOURCE)
    assert ModelVersion.objects.get().sha256 == hashlib.sha256(SOURCE).hexdigest()


def test_receiving_and_hashing_again_take_no_more_memory_than_a_few_blocks(actor: Actor, team: Team) -> None:
    class Zeros:
        def read(self, size: int, /) -> bytes:
            return bytes(size)

    size_bytes = 48 * MIB
    upload = begin(actor, team, size_bytes, filename="m.onnx")
    append(actor, upload, b"\x08")
    tracemalloc.start()
    upload_append(actor=actor, upload=upload, offset=1, stream=Zeros(), length_bytes=size_bytes - 1)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert ModelVersion.objects.get().sha256 == hashlib.sha256(b"\x08" + bytes(size_bytes - 1)).hexdigest()
    assert peak_bytes < 8 * incoming.BLOCK_BYTES


def test_an_empty_piece_finishes_an_upload_whose_bytes_are_all_there(
    actor: Actor, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a crash of the database between the last byte and the version."""
    upload = begin(actor, team)
    with monkeypatch.context() as patch:
        patch.setattr("fuseworks.registry.services.uploads.run_create", _fail)
        with pytest.raises(ConnectionError):
            append(actor, upload, SOURCE)
    assert ModelVersion.objects.count() == 0
    assert incoming.offset_of(upload) == 17
    assert append(actor, upload, b"", offset=17) == 17
    assert ModelVersion.objects.get().sha256 == hashlib.sha256(SOURCE).hexdigest()


def _fail(**fields: Any) -> None:
    raise ConnectionError


def test_a_failed_registration_leaves_no_file_in_the_storage(
    actor: Actor, team: Team, storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuseworks.registry.services.uploads.run_create", _fail)
    with pytest.raises(ConnectionError):
        append(actor, begin(actor, team), SOURCE)
    assert [path for path in (storage / "files").rglob("*") if path.is_file()] == []
    assert Model.objects.count() == 0


def test_finishing_twice_answers_the_same_version(actor: Actor, team: Team) -> None:
    upload = begin(actor, team)
    append(actor, upload, SOURCE)
    upload.refresh_from_db()
    assert upload_finish(actor=actor, upload=upload) == ModelVersion.objects.get()
    assert Run.objects.count() == 1


# ---- offsets, writers, cuts ------------------------------------------------------------------------------------------


def test_a_wrong_offset_is_refused_with_the_right_one(actor: Actor, team: Team) -> None:
    upload = begin(actor, team)
    append(actor, upload, SOURCE[:5])
    for wrong in (0, 4, 6):
        error = refused(lambda at=wrong: append(actor, upload, b"x", offset=at))  # type: ignore[misc]
        assert (error.id, error.status, error.extra) == ("registry:usage:wrong-offset", 409, {"offset_bytes": 5})
    assert incoming.offset_of(upload) == 5


def test_bytes_past_the_announced_length_are_refused_unread(actor: Actor, team: Team) -> None:
    upload = begin(actor, team)
    stream = io.BytesIO(bytes(18))
    error = refused(lambda: upload_append(actor=actor, upload=upload, offset=0, stream=stream, length_bytes=18))
    assert (error.id, error.status) == ("registry:usage:past-end", 413)
    assert stream.tell() == 0
    assert incoming.offset_of(upload) == 0


def test_a_second_writer_is_kept_out_while_the_first_one_writes(actor: Actor, team: Team) -> None:
    upload = begin(actor, team)
    with incoming.locked(upload):
        error = refused(lambda: append(actor, upload, SOURCE))
    assert (error.id, error.status) == ("registry:usage:busy", 423)
    assert append(actor, upload, SOURCE) == 17


def test_what_came_before_the_line_broke_is_kept(actor: Actor, team: Team) -> None:
    upload = begin(actor, team)
    error = refused(
        lambda: upload_append(actor=actor, upload=upload, offset=0, stream=Cut(SOURCE[:7]), length_bytes=17)
    )
    assert (error.id, error.status) == ("registry:usage:cut-off", 400)
    assert "7 of 17" in error.message
    assert append(actor, upload, SOURCE[7:], offset=7) == 17
    assert ModelVersion.objects.get().sha256 == hashlib.sha256(SOURCE).hexdigest()


def test_a_piece_with_a_wrong_checksum_is_dropped_and_may_come_again(actor: Actor, team: Team) -> None:
    upload = begin(actor, team)
    append(actor, upload, SOURCE[:5])
    digest = hashlib.sha256(SOURCE[5:9]).digest()
    error = refused(lambda: append(actor, upload, b"oops", offset=5, sha256=digest))
    assert (error.id, error.status) == ("registry:usage:chunk-checksum", 460)
    assert incoming.offset_of(upload) == 5
    assert append(actor, upload, SOURCE[5:9], offset=5, sha256=digest) == 9


def test_a_cut_piece_that_promised_a_checksum_is_dropped(actor: Actor, team: Team) -> None:
    upload = begin(actor, team)
    error = refused(
        lambda: upload_append(
            actor=actor, upload=upload, offset=0, stream=Cut(b"abc"), length_bytes=9, sha256=bytes(32)
        )
    )
    assert error.id == "registry:usage:cut-off"
    assert incoming.offset_of(upload) == 0


def test_a_file_in_one_request_that_breaks_leaves_nothing(actor: Actor, team: Team, storage: Path) -> None:
    error = refused(
        lambda: upload_whole(
            actor=actor, team=team, filename="a.py", stream=Cut(b"ab"), length_bytes=5, model_name="DIN"
        )
    )
    assert error.id == "registry:usage:cut-off"
    assert Upload.objects.count() == 0
    assert incoming_files(storage) == []


def test_a_full_disk_is_the_sites_fault_and_keeps_what_fitted(
    actor: Actor, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = begin(actor, team)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("fuseworks.registry.incoming.os.fsync", full)
        error = refused(lambda: append(actor, upload, SOURCE[:5]))
    assert (error.id, error.status, error.side) == ("registry:ours:disk-full", 507, "ours")
    assert append(actor, upload, SOURCE[5:], offset=5) == 17


# ---- the end ---------------------------------------------------------------------------------------------------------


def test_cancelling_throws_away_what_came(actor: Actor, team: Team, storage: Path) -> None:
    upload = begin(actor, team)
    append(actor, upload, SOURCE[:5])
    upload_cancel(actor=actor, upload=upload)
    assert Upload.objects.count() == 0
    assert incoming_files(storage) == []
    error = refused(lambda: append(actor, upload, SOURCE[5:], offset=5))
    assert (error.id, error.status) == ("registry:usage:upload-over", 410)


def test_an_upload_that_was_cancelled_while_it_was_sent_makes_no_version(actor: Actor, team: Team) -> None:
    upload = begin(actor, team)

    class Cancelling:
        def read(self, size: int, /) -> bytes:
            upload_cancel(actor=actor, upload=Upload.objects.get(pk=upload.pk))
            return SOURCE

    error = refused(lambda: upload_append(actor=actor, upload=upload, offset=0, stream=Cancelling(), length_bytes=17))
    assert error.id == "registry:usage:upload-over"
    assert ModelVersion.objects.count() == Run.objects.count() == 0


def test_a_complete_upload_cannot_be_cancelled(actor: Actor, team: Team) -> None:
    upload = begin(actor, team)
    append(actor, upload, SOURCE)
    assert refused(lambda: upload_cancel(actor=actor, upload=upload)).id == "registry:usage:upload-over"
    assert ModelVersion.objects.get().storage_key


def test_each_piece_gives_an_upload_new_time_and_an_expired_one_takes_none(actor: Actor, team: Team) -> None:
    upload = begin(actor, team)
    soon = timezone.now() + timedelta(minutes=1)
    Upload.objects.filter(pk=upload.pk).update(expires_at=soon)
    append(actor, upload, SOURCE[:5])
    upload.refresh_from_db()
    assert upload.expires_at > soon + timedelta(hours=23)
    Upload.objects.filter(pk=upload.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert refused(lambda: append(actor, upload, SOURCE[5:], offset=5)).id == "registry:usage:upload-over"


def test_finishing_early_says_how_much_is_missing(actor: Actor, team: Team) -> None:
    upload = begin(actor, team)
    append(actor, upload, SOURCE[:5])
    error = refused(lambda: upload_finish(actor=actor, upload=upload))
    assert (error.id, error.status) == ("registry:usage:incomplete", 409)
    assert "5 of 17" in error.message


def test_viewers_upload_nothing(team: Team) -> None:
    viewer = Actor(factories.make_member(team, "viewer"))
    error = refused(lambda: begin(viewer, team))
    assert (error.id, error.status) == ("core:usage:forbidden", 403)
    upload = begin(Actor(factories.make_member(team)), team)
    assert refused(lambda: append(viewer, upload, SOURCE)).status == 403
    assert refused(lambda: upload_cancel(actor=viewer, upload=upload)).status == 403
