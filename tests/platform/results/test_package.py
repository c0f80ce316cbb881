"""The package as a user gets it: downloaded from the page, unpacked, and run."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from django.urls import reverse

from fuseworks.runs.models import Run
from tests.optimizer.packaging.conftest import write
from tests.platform.factories import client_for, make_member, make_user
from tests.platform.results.support import document, finished_run, keep_file

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> Run:
    return finished_run(document("din"))


def test_it_runs_its_own_self_test_once_downloaded(run, tmp_path: Path):
    write(tmp_path / "made")
    keep_file(run, "package.zip", (tmp_path / "made" / "package.zip").read_bytes())
    client = client_for(make_member(run.team, "viewer"))
    page = client.get(reverse("run_comparison", args=[run.pk])).content.decode()
    link = reverse("run_file", args=[run.pk, "package.zip"])
    assert f'href="{link}"' in page

    answer = client.get(link)
    assert answer.headers["Content-Disposition"] == 'attachment; filename="din-v1-package.zip"'
    downloaded = tmp_path / "din-v1-package.zip"
    downloaded.write_bytes(b"".join(answer.streaming_content))
    with zipfile.ZipFile(downloaded) as archive:
        archive.extractall(tmp_path / "unpacked")
    (script,) = (tmp_path / "unpacked").rglob("run.py")
    done = subprocess.run([sys.executable, str(script), "--self-test"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "ms" in done.stdout


def test_a_report_is_a_download_and_never_a_page_of_this_site(run):
    keep_file(run, "report.html", b"<script>alert(1)</script>")
    answer = client_for(make_member(run.team)).get(reverse("run_file", args=[run.pk, "report.html"]))
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in answer.headers["Content-Security-Policy"]


def test_files_of_an_earlier_attempt_are_not_offered(run):
    artifact = keep_file(run, "package.zip", b"PK")
    type(artifact).objects.filter(pk=artifact.pk).update(attempt=run.attempt - 1)
    answer = client_for(make_member(run.team)).get(reverse("run_file", args=[run.pk, "package.zip"]))
    assert answer.status_code == 404


def test_a_stranger_and_a_wrong_name_get_404(run):
    keep_file(run, "package.zip", b"PK")
    assert client_for(make_user()).get(reverse("run_file", args=[run.pk, "package.zip"])).status_code == 404
    answer = client_for(make_member(run.team)).get(reverse("run_file", args=[run.pk, "secrets.txt"]))
    assert answer.status_code == 404 and "secrets.txt" in answer.content.decode()
