"""Deleting versions, and what time takes away."""

from __future__ import annotations

import io
import os
import time
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from fuseworks.accounts.models import AuditEntry
from fuseworks.accounts.permissions import Actor
from fuseworks.core.errors import PlatformError
from fuseworks.core.storage import open_stored, store
from fuseworks.registry import incoming
from fuseworks.registry.models import ModelVersion, Upload
from fuseworks.registry.services import clean, upload_begin, version_delete
from fuseworks.registry.usage import usage
from fuseworks.runs.models import Artifact, Run
from tests.platform import factories

pytestmark = pytest.mark.django_db(transaction=True)  # files go when a transaction is committed


def maintainer(version: ModelVersion) -> Actor:
    return Actor(factories.make_member(version.model.team, "maintainer"))


def is_stored(key: str) -> bool:
    try:
        open_stored(key).close()
    except PlatformError:
        return False
    return True


def test_deleting_drops_the_file_and_keeps_what_refers_to_it() -> None:
    version = factories.make_version(factories.make_model(factories.make_team()), data=b"bytes")
    key, run = version.storage_key, factories.make_run(version, status="succeeded")
    workload = factories.make_workload(version)
    actor = maintainer(version)
    version_delete(actor=actor, version=version)
    assert not is_stored(key)
    version.refresh_from_db()
    assert (version.storage_key, version.deleted_by) == ("", actor.user)
    assert version.deleted_at is not None
    run.refresh_from_db()
    workload.refresh_from_db()
    assert run.version == workload.version == version
    first = version.deleted_at
    assert version_delete(actor=actor, version=version).deleted_at == first  # once more is no error
    assert AuditEntry.objects.filter(action="version.delete").count() == 1


def test_deleting_one_of_two_versions_with_equal_bytes_keeps_the_others_file() -> None:
    team = factories.make_team()
    first = factories.make_version(factories.make_model(team), data=b"same")
    second = factories.make_version(factories.make_model(team), data=b"same")
    version_delete(actor=maintainer(first), version=first)
    with open_stored(second.storage_key) as file:
        assert file.read() == b"same"


def left_by(version: ModelVersion, name: str, content: bytes = b"0123456789") -> Artifact:
    run = factories.make_run(version, status="succeeded")
    stored = store(io.BytesIO(content), prefix="artifacts")
    return Artifact.objects.create(
        run=run, attempt=1, name=name, size_bytes=len(content), sha256=stored.sha256, storage_key=stored.key
    )


def test_deleting_takes_the_packages_of_its_runs_too_and_nothing_else() -> None:
    model = factories.make_model(factories.make_team())
    version, other = factories.make_version(model, data=b"bytes"), factories.make_version(model, data=b"others")
    gone = left_by(version, "package.zip")
    kept = [left_by(version, "report.html"), left_by(other, "package.zip")]
    version_delete(actor=maintainer(version), version=version)
    assert not is_stored(gone.storage_key)
    assert all(is_stored(one.storage_key) for one in kept)
    assert set(Artifact.objects.all()) == set(kept)


def test_packages_can_be_kept_and_deleted_later() -> None:
    version = factories.make_version(factories.make_model(factories.make_team()), data=b"bytes")
    package, actor = left_by(version, "package.zip"), maintainer(version)
    version_delete(actor=actor, version=version, with_packages=False)
    assert is_stored(package.storage_key)
    version_delete(actor=actor, version=version)
    assert not is_stored(package.storage_key)


def test_the_page_offers_to_delete_the_packages_and_heeds_the_answer() -> None:
    model = factories.make_model(factories.make_team())
    client = factories.client_for(factories.make_member(model.team, "maintainer"))
    for answer, stays in (({"packages": "delete"}, False), ({}, True)):
        version = factories.make_version(model, data=b"bytes")
        package = left_by(version, "package.zip")
        address = f"/versions/{version.pk}/delete/"
        page = client.get(address).content.decode()
        assert 'name="packages" value="delete" checked' in page and "10 B" in page
        assert client.post(address, answer).status_code == 302
        assert is_stored(package.storage_key) is stays


def test_the_page_says_which_runs_need_the_file_and_offers_no_button_then() -> None:
    version = factories.make_version(factories.make_model(factories.make_team()), b"x")
    later = factories.make_version(version.model)
    browser = factories.client_for(factories.make_member(version.model.team, "maintainer"))
    runs = [factories.make_run(version), factories.make_run(later, purpose="compare", against=version)]
    address = f"/versions/{version.pk}/delete/"
    page = browser.get(address).content.decode()
    assert "2 runs that are not over still need this file." in page
    assert "Yes, delete the file" not in page and "<form" not in page.split("<main")[1]
    Run.objects.filter(pk__in=[run.pk for run in runs]).update(status="failed", ended_at=timezone.now())
    page = browser.get(address).content.decode()
    assert "still need" not in page and "Yes, delete the file" in page


def test_a_run_whose_file_is_gone_is_not_offered_once_more() -> None:
    version = factories.make_version(factories.make_model(factories.make_team()), b"x")
    later = factories.make_version(version.model)
    run = factories.make_run(version, status="failed")
    compared = factories.make_run(later, purpose="compare", against=version, status="failed")
    browser = factories.client_for(factories.make_member(version.model.team))
    pages = [f"/runs/{one.pk}/" for one in (run, compared)]
    assert all("Run again" in browser.get(page).content.decode() for page in pages)
    version_delete(actor=maintainer(version), version=version)
    assert not any("Run again" in browser.get(page).content.decode() for page in pages)


def test_the_api_deletes_packages_unless_told_to_keep_them() -> None:
    model = factories.make_model(factories.make_team())
    api = factories.api_for(factories.make_member(model.team, "maintainer"))
    for query, stays in (("", False), ("?packages=delete", False), ("?packages=keep", True)):
        version = factories.make_version(model, data=b"bytes")
        package = left_by(version, "package.zip")
        assert api.delete(f"/api/v1/versions/{version.pk}/?packages=both").status_code == 400
        assert api.delete(f"/api/v1/versions/{version.pk}/{query}").status_code == 204
        assert is_stored(package.storage_key) is stays, query


def test_what_runs_left_counts_against_the_quota() -> None:
    team = factories.make_team()
    version = factories.make_version(factories.make_model(team), data=b"bytes")
    left_by(version, "package.zip")
    left_by(version, "log.txt", b"abc")
    left_by(factories.make_version(factories.make_model(factories.make_team())), "package.zip")
    assert usage(team=team).stored_bytes == 5 + 10 + 3


@pytest.mark.parametrize("role", ["version", "against"])
@pytest.mark.parametrize("status", ["queued", "running"])
def test_a_version_at_work_is_not_deleted(role: str, status: str) -> None:
    model = factories.make_model(factories.make_team())
    version, other = factories.make_version(model, data=b"bytes"), factories.make_version(model)
    if role == "version":
        run = factories.make_run(version, status=status)
    else:
        run = factories.make_run(other, against=version, purpose="compare", status=status)
    with pytest.raises(PlatformError) as caught:
        version_delete(actor=maintainer(version), version=version)
    assert (caught.value.id, caught.value.status) == ("registry:usage:in-use", 409)
    assert is_stored(version.storage_key)
    Run.objects.filter(pk=run.pk).update(status="cancelled")
    version_delete(actor=maintainer(version), version=version)


def test_members_delete_nothing() -> None:
    version = factories.make_version(factories.make_model(factories.make_team()), data=b"bytes")
    with pytest.raises(PlatformError) as caught:
        version_delete(actor=Actor(factories.make_member(version.model.team)), version=version)
    assert caught.value.id == "core:usage:forbidden"
    assert "maintainer" in caught.value.message
    assert is_stored(version.storage_key)


# ---- retention ----------------------------------------------------------------------------------------------------


def old_version(days: int, **fields: Any) -> ModelVersion:
    version = factories.make_version(factories.make_model(factories.make_team()), data=b"0123456789", **fields)
    ModelVersion.objects.filter(pk=version.pk).update(created_at=timezone.now() - timedelta(days=days))
    return version


def old_run(version: ModelVersion, days: int, **fields: Any) -> Run:
    run = factories.make_run(version, **{"status": "succeeded", **fields})
    then = timezone.now() - timedelta(days=days)
    Run.objects.filter(pk=run.pk).update(created_at=then, ended_at=then if run.is_terminal else None)
    return run


def test_files_that_nobody_used_for_the_retention_go_and_all_others_stay(settings: Any) -> None:
    settings.RETENTION_DAYS = 30
    old = timezone.now() - timedelta(days=31)
    unused, young = old_version(31), old_version(29)
    used_lately, used_long_ago = old_version(90), old_version(90)
    old_run(used_lately, 29)
    old_run(used_long_ago, 31)
    package = left_by(used_long_ago, "package.zip")
    Run.objects.filter(pk=package.run_id).update(created_at=old, ended_at=old)
    waiting = old_version(90)
    old_run(waiting, 60, status="queued")
    compared = old_version(90)
    old_run(used_lately, 3, against=compared, purpose="compare")
    cleaned = clean(timezone.now())
    assert (cleaned.versions, cleaned.bytes) == (2, 20)
    kept = set(ModelVersion.objects.filter(deleted_at=None).values_list("pk", flat=True))
    assert kept == {young.pk, used_lately.pk, waiting.pk, compared.pk}
    assert not is_stored(unused.storage_key)
    assert not is_stored(used_long_ago.storage_key) and not is_stored(package.storage_key)
    assert all(is_stored(version.storage_key) for version in (young, used_lately, waiting, compared))
    unused.refresh_from_db()
    assert unused.deleted_by is None
    entry = AuditEntry.objects.get(action="version.expire", object_id=unused.pk)
    assert (entry.actor, entry.detail["days"]) == (None, 30)


def test_without_a_retention_nothing_is_ever_removed(settings: Any) -> None:
    settings.RETENTION_DAYS = 0
    version = old_version(4000)
    assert clean(timezone.now()).versions == 0
    assert is_stored(version.storage_key)


def test_expired_uploads_go_with_their_bytes(storage: Path) -> None:
    team = factories.make_team()
    actor = Actor(factories.make_member(team))
    open_, expired = (
        upload_begin(actor=actor, team=team, filename="a.py", length_bytes=9, model_name="DIN") for _ in range(2)
    )
    Upload.objects.filter(pk=expired.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert clean(timezone.now()).uploads == 1
    assert list(Upload.objects.all()) == [open_]
    assert [path.stem for path in (storage / "incoming").iterdir()] == [open_.pk.hex]


def test_the_row_of_a_finished_upload_goes_and_its_version_stays() -> None:
    version = factories.make_version(factories.make_model(factories.make_team()), data=b"bytes")
    Upload.objects.create(
        team=version.model.team,
        model=version.model,
        model_name="m",
        filename="m.py",
        length_bytes=5,
        version=version,
        expires_at=timezone.now() - timedelta(seconds=1),
    )
    assert clean(timezone.now()).uploads == 1
    assert Upload.objects.count() == 0
    assert is_stored(version.storage_key)


def test_files_that_no_row_names_go_after_a_day() -> None:
    named = factories.make_version(
        factories.make_model(factories.make_team()), storage_key=store(io.BytesIO(b"x"), prefix="versions").key
    )
    package = left_by(named, "package.zip")
    strays = [store(io.BytesIO(b"y"), prefix=prefix).key for prefix in ("versions", "artifacts")]
    part = incoming.folder() / f"{uuid.uuid4().hex}{incoming.SUFFIX}"
    part.write_bytes(b"z")
    assert clean(timezone.now()).stray_files == 0
    yesterday = time.time() - 86_401
    for path in incoming.folder().parent.rglob("*"):
        if path.is_file():
            os.utime(path, (yesterday, yesterday))
    assert clean(timezone.now()).stray_files == 3
    assert is_stored(named.storage_key) and is_stored(package.storage_key)
    assert not any(is_stored(stray) for stray in strays)
    assert not part.exists()


def test_a_dry_run_says_what_would_go_and_takes_nothing(settings: Any, capsys: pytest.CaptureFixture[str]) -> None:
    settings.RETENTION_DAYS = 30
    version = old_version(31)
    call_command("clean", "--dry-run")
    assert "would remove 0 uploads, the files of 1 versions" in capsys.readouterr().out
    assert is_stored(version.storage_key)
    call_command("clean")
    assert capsys.readouterr().out.startswith("removed 0 uploads, the files of 1 versions")
    assert not is_stored(version.storage_key)
