"""What `clean` takes of tables and folders that would else grow for ever, and what a bad file cannot keep it from."""

from __future__ import annotations

import io
import os
import time
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django.utils import timezone

from fuseworks.core.storage import open_stored, store
from fuseworks.registry import incoming
from fuseworks.registry.services import clean, retention
from fuseworks.runs.models import Artifact, Run, RunEvent
from tests.platform import factories

pytestmark = pytest.mark.django_db(transaction=True)  # files go when a transaction is committed
FILES = ("report.html", "samples.json", "log.txt", "recipe.yaml", "package.zip")


def run_that_ended(days_ago: float) -> Run:
    """With an event, a result and one file of each kind."""
    version = factories.make_version(factories.make_model(factories.make_team()), data=b"model")
    run = factories.make_run(version, status="succeeded")
    Run.objects.filter(pk=run.pk).update(ended_at=timezone.now() - timedelta(days=days_ago))
    factories.make_result(run)
    RunEvent.objects.create(run=run, attempt=1, number=0, kind="capturing", at_s=1.0, message="Capturing")
    for name in FILES:
        stored = store(io.BytesIO(name.encode()), prefix="artifacts")
        Artifact.objects.create(
            run=run, attempt=1, name=name, size_bytes=1, sha256=stored.sha256, storage_key=stored.key
        )
    run.refresh_from_db()
    return run


def left(run: Run) -> set[str]:
    return set(Artifact.objects.filter(run=run).values_list("name", flat=True))


def test_old_runs_lose_events_report_samples_and_log_and_keep_what_they_were_for(settings: Any) -> None:
    settings.RUN_FILES_DAYS = 30
    old, young = run_that_ended(31), run_that_ended(29)
    keys = {one.name: one.storage_key for one in Artifact.objects.filter(run=old)}
    assert clean(timezone.now(), dry_run=True).runs == 1
    assert left(old) == set(FILES)
    assert clean(timezone.now()).runs == 1
    assert (left(old), left(young)) == ({"recipe.yaml", "package.zip"}, set(FILES))
    assert (old.events.count(), young.events.count()) == (0, 1)
    files = Path(settings.STORAGE) / "files"
    assert {name for name, key in keys.items() if (files / key).exists()} == {"recipe.yaml", "package.zip"}
    assert clean(timezone.now()).runs == 0  # nothing is left to lose


def test_of_an_old_run_the_page_and_the_comparison_can_still_be_read_and_say_what_is_gone(settings: Any) -> None:
    settings.RUN_FILES_DAYS = 30
    run = run_that_ended(31)
    clean(timezone.now())
    client = factories.client_for(factories.make_member(run.team))
    text = client.get(f"/runs/{run.pk}/").content.decode()
    assert "Log, report and samples of a run are kept for 30 days after its end." in text
    assert "package.zip" in text and "report.html" not in text
    assert "no worker worked on it" not in text
    compared = client.get(f"/runs/{run.pk}/comparison/")
    assert compared.status_code == 200 and "2.00" in compared.content.decode()


def test_zero_days_keep_what_runs_left_for_ever_and_a_run_that_works_loses_nothing(settings: Any) -> None:
    run = run_that_ended(4000)
    settings.RUN_FILES_DAYS = 0
    assert clean(timezone.now()).runs == 0
    settings.RUN_FILES_DAYS = 1
    Run.objects.filter(pk=run.pk).update(status="running", ended_at=None)
    assert clean(timezone.now()).runs == 0
    assert left(run) == set(FILES)


def test_sessions_that_are_over_and_old_notes_of_sign_ins_go() -> None:
    now = timezone.now()
    for name, days in (("over", -1), ("open", 1)):
        Session.objects.create(session_key=name, session_data="", expire_date=now + timedelta(days=days))
    for kind, fields in ((AccessLog, {}), (AccessFailureLog, {}), (AccessAttempt, {"failures_since_start": 1})):
        for days in (89, 91):
            row = kind.objects.create(username=f"{days}", ip_address="192.0.2.1", user_agent=f"{days}", **fields)
            kind.objects.filter(pk=row.pk).update(attempt_time=now - timedelta(days=days))
    planned, cleaned = clean(now, dry_run=True), clean(now)
    assert (planned.sessions, planned.sign_ins) == (cleaned.sessions, cleaned.sign_ins) == (1, 3)
    assert list(Session.objects.values_list("session_key", flat=True)) == ["open"]
    for kind in (AccessLog, AccessFailureLog, AccessAttempt):
        assert list(kind.objects.values_list("username", flat=True)) == ["89"]


def old_part(name: str) -> Path:
    path = incoming.folder() / f"{name}{incoming.SUFFIX}"
    path.write_bytes(b"z")
    yesterday = time.time() - 86_401
    os.utime(path, (yesterday, yesterday))
    return path


def test_a_foreign_file_among_the_uploads_is_named_and_left_and_the_others_go(caplog: pytest.LogCaptureFixture) -> None:
    foreign, stray = old_part("notes of somebody"), old_part(uuid.uuid4().hex)
    cleaned = clean(timezone.now())
    assert (cleaned.stray_files, cleaned.failed) == (1, 0)
    assert foreign.exists() and not stray.exists()
    assert "notes of somebody" in caplog.text


def test_a_file_that_vanishes_while_it_is_looked_at_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = incoming.folder() / f"{uuid.uuid4().hex}{incoming.SUFFIX}"
    stray = old_part(uuid.uuid4().hex)
    glob = Path.glob

    def with_one_that_went(self: Path, pattern: str) -> Any:
        return [gone, *glob(self, pattern)]

    monkeypatch.setattr(Path, "glob", with_one_that_went)
    cleaned = clean(timezone.now())
    assert (cleaned.stray_files, cleaned.failed) == (1, 0)
    assert not stray.exists()


def test_a_file_that_resists_is_logged_and_keeps_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    parts = [old_part(uuid.uuid4().hex) for _ in range(3)]
    unlink = Path.unlink

    def resisting(self: Path, missing_ok: bool = False) -> None:
        if self == parts[1]:
            raise PermissionError(13, "Permission denied")
        unlink(self, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", resisting)
    assert clean(timezone.now()).stray_files == 2
    assert [part.exists() for part in parts] == [False, True, False]
    assert f"{parts[1]!r} could not be removed" in caplog.text


def test_a_step_that_fails_leaves_the_others_their_work_and_the_command_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(now: Any) -> None:
        raise ValueError("a fault of ours")

    monkeypatch.setattr(retention, "unused_versions", fail)
    stray = old_part(uuid.uuid4().hex)
    with pytest.raises(CommandError) as caught:
        call_command("clean")
    assert "1 parts could not be cleaned" in str(caught.value)
    assert "1 stray files" in capsys.readouterr().out
    assert not stray.exists()


def test_a_database_that_is_away_ends_the_cleaning(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(now: Any) -> None:
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr(retention, "unused_versions", away)
    with pytest.raises(OperationalError):
        clean(timezone.now())


def test_what_is_kept_can_be_opened(settings: Any) -> None:
    settings.RUN_FILES_DAYS = 30
    run = run_that_ended(31)
    clean(timezone.now())
    with open_stored(Artifact.objects.get(run=run, name="package.zip").storage_key) as file:
        assert file.read() == b"package.zip"
