"""Files of a run, streamed into the storage."""

from __future__ import annotations

import errno
import hashlib
import io
import os
from pathlib import Path
from typing import Any

import pytest

from fuseworks.core.errors import PlatformError
from fuseworks.core.storage import open_stored
from fuseworks.registry.usage import usage
from fuseworks.runs.models import Artifact
from fuseworks.runs.services import ARTIFACTS, artifact_store, attempt_give_up, run_finish
from fuseworks.runs.services.artifacts import Kind
from tests.platform import factories
from tests.platform.runs.steps import at, claimed, queued

pytestmark = pytest.mark.django_db
REPORT = b"<h1>faster</h1>"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def kept(storage: Path) -> list[Path]:
    return [path for path in storage.rglob("*") if path.is_file()]


def store(attempt: Any, data: bytes = REPORT, name: str = "report.html", digest: str | None = None) -> Artifact:
    return artifact_store(attempt=attempt, name=name, stream=io.BytesIO(data), expected_sha256=digest or sha256(data))


def test_a_file_is_kept_with_its_size_and_hash() -> None:
    run = queued()
    artifact = store(claimed(run))
    assert (artifact.run, artifact.attempt, artifact.name) == (run, 1, "report.html")
    assert (artifact.size_bytes, artifact.sha256) == (len(REPORT), sha256(REPORT))
    with open_stored(artifact.storage_key) as file:
        assert file.read() == REPORT


def test_the_same_name_again_replaces_it_and_its_old_bytes_go(storage: Path) -> None:
    attempt = claimed(queued())
    store(attempt)
    artifact = store(attempt, b"other")
    assert Artifact.objects.get().sha256 == sha256(b"other")
    assert len(kept(storage)) == 1
    with open_stored(artifact.storage_key) as file:
        assert file.read() == b"other"


@pytest.mark.parametrize("name", ["evil.sh", "../report.html", "REPORT.HTML", "", "report.html\x00"])
def test_a_name_that_no_run_leaves_is_refused(name: str, storage: Path) -> None:
    with pytest.raises(PlatformError) as caught:
        store(claimed(queued()), name=name)
    assert caught.value.id == "runs:usage:artifact-name"
    assert "package.zip" in caught.value.remedy
    assert not kept(storage)


def test_a_file_with_another_hash_than_announced_is_not_kept(storage: Path) -> None:
    with pytest.raises(PlatformError) as caught:
        store(claimed(queued()), digest=sha256(b"else"))
    assert (caught.value.id, caught.value.status) == ("runs:usage:digest", 422)
    assert not Artifact.objects.exists()
    assert not kept(storage)


def test_a_file_past_its_limit_breaks_off_and_is_not_kept(monkeypatch: pytest.MonkeyPatch, storage: Path) -> None:
    monkeypatch.setitem(ARTIFACTS, "log.txt", Kind("text/plain", 10))
    attempt = claimed(queued())
    store(attempt, b"0123456789", name="log.txt")
    with pytest.raises(PlatformError) as caught:
        store(attempt, b"0123456789a", name="log.txt")
    assert (caught.value.id, caught.value.status) == ("runs:usage:too-large", 413)
    assert len(kept(storage)) == 1


def test_no_file_is_larger_than_the_sites_limit_and_one_that_says_so_is_refused_unread(settings: Any) -> None:
    settings.MAX_ARTIFACT_BYTES = 10
    attempt = claimed(queued())
    store(attempt, b"0123456789", name="package.zip")
    unread = io.BytesIO(b"0123456789a")
    for length_bytes, stream in ((None, io.BytesIO(b"0123456789a")), (11, unread)):
        with pytest.raises(PlatformError) as caught:
            artifact_store(
                attempt=attempt, name="package.zip", stream=stream, expected_sha256="0" * 64, length_bytes=length_bytes
            )
        assert (caught.value.id, caught.value.status) == ("runs:usage:too-large", 413)
    assert unread.tell() == 0


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("at_block", [1, 2])
def test_a_disk_that_is_full_is_told_as_that_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, storage: Path, code: int, at_block: int
) -> None:
    real = os.fsync if at_block == 2 else None

    def full(*_: Any) -> None:
        raise OSError(code, os.strerror(code))

    if real is not None:  # what a network file system says at the very end
        monkeypatch.setattr("fuseworks.core.storage.os.fsync", full)
    else:
        monkeypatch.setattr("django.core.files.storage.filesystem.os.fdopen", full)
    with pytest.raises(PlatformError) as caught:
        store(claimed(queued()))
    assert (caught.value.id, caught.value.status) == ("runs:ours:disk-full", 507)
    monkeypatch.undo()
    assert not kept(storage) and not Artifact.objects.exists()


def test_a_file_for_which_there_is_no_room_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuseworks.runs.services.artifacts.free_bytes", lambda folder: 10)
    attempt, unread = claimed(queued()), io.BytesIO(REPORT)
    with pytest.raises(PlatformError) as caught:
        artifact_store(
            attempt=attempt, name="report.html", stream=unread, expected_sha256=sha256(REPORT), length_bytes=11
        )
    assert (caught.value.id, unread.tell()) == ("runs:ours:disk-full", 0)


def test_a_package_past_the_teams_quota_is_refused_and_everything_else_is_kept() -> None:
    run = queued()  # its version has 17 bytes
    run.team.quota_bytes = 17 + 20
    run.team.save()
    attempt = claimed(run)
    package = {"name": "package.zip", "attempt": attempt}

    def send(data: bytes, **fields: Any) -> Artifact:
        stream = io.BytesIO(data)
        return artifact_store(stream=stream, expected_sha256=sha256(data), length_bytes=len(data), **fields)

    for _ in range(2):  # sent twice it does not count twice
        send(b"20 bytes, not a byte"[:20], **package)
    assert usage(team=run.team).left_bytes == 20
    with pytest.raises(PlatformError) as caught:
        send(b"21 bytes, one too many"[:21], **package)
    assert (caught.value.id, caught.value.status) == ("runs:usage:quota", 507)
    assert "larger quota" in caught.value.remedy
    send(REPORT, name="report.html", attempt=attempt)
    assert set(Artifact.objects.values_list("name", "size_bytes")) == {("package.zip", 20), ("report.html", 15)}


def test_a_files_bytes_and_its_folder_are_on_the_disk_before_its_row_is(
    monkeypatch: pytest.MonkeyPatch, storage: Path
) -> None:
    real, settled = os.fsync, []

    def noted(descriptor: int) -> None:
        assert not Artifact.objects.exists()
        settled.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr("fuseworks.core.storage.os.fsync", noted)
    artifact = store(claimed(queued()))
    file = storage / "files" / artifact.storage_key
    assert settled == [str(file), str(file.parent), str(storage / "files")]


def test_a_stale_attempts_file_is_refused_before_and_after_its_bytes(storage: Path) -> None:
    run = queued()
    attempt = claimed(run)

    class Meanwhile(io.BytesIO):
        """The run is given to another worker while the bytes come."""

        def read(self, size: int | None = -1, /) -> bytes:
            if attempt.state == "claimed":
                attempt_give_up(attempt=attempt, reason="stopping", now=at(1))
            return super().read(size)

    for stream in (Meanwhile(REPORT), io.BytesIO(REPORT)):
        with pytest.raises(PlatformError) as caught:
            artifact_store(attempt=attempt, name="report.html", stream=stream, expected_sha256=sha256(REPORT))
        assert caught.value.id == "runs:usage:stale"
    assert attempt.state == "gave_up"
    assert not kept(storage)


@pytest.mark.django_db(transaction=True)  # files go when a transaction is committed
@pytest.mark.parametrize("has_answer", [True, False])
def test_files_of_earlier_attempts_go_when_the_run_ends(storage: Path, has_answer: bool) -> None:
    run = queued(max_attempts=2)
    first = claimed(run)
    store(first, b"of the first", name="log.txt")
    attempt_give_up(attempt=first, reason="no disk", now=at(1))
    assert len(kept(storage)) == 1  # until there is another answer
    second = claimed(run, at(20))
    store(second)
    if has_answer:
        run_finish(attempt=second, document=factories.result_document(), now=at(30))
    else:
        attempt_give_up(attempt=second, reason="no disk", now=at(30))
    run.refresh_from_db()
    assert run.is_terminal
    assert [(one.attempt, one.name) for one in Artifact.objects.all()] == [(2, "report.html")]
    assert [path.read_bytes() for path in kept(storage)] == [REPORT]


def test_every_kind_has_a_type_and_a_limit() -> None:
    assert {"report.html", "package.zip", "recipe.yaml", "samples.json", "log.txt"} <= set(ARTIFACTS)
    assert all("/" in kind.content_type and kind.limit_bytes > 0 for kind in ARTIFACTS.values())
