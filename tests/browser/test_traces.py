"""Traces in a browser: several files are packed and sent as one, and a diagnosis is read, filtered and followed."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import expect

from fuseworks.core.storage import open_stored
from fuseworks.registry.models import ModelVersion
from tests.browser.conftest import OpenPage
from tests.browser.support import LANGUAGES, THEMES
from tests.optimizer.diagnosing.traces.training import Training
from tests.platform.factories import make_member, make_team
from tests.platform.traces.support import diagnosis_run, make_job, make_trace, two_ranks

pytestmark = pytest.mark.django_db(transaction=True)


def test_several_ranks_are_packed_in_the_browser_and_sent_as_one(open_page: OpenPage, tmp_path: Path) -> None:
    files = [Training(rank=rank).run().write(tmp_path / f"rank{rank}.json") for rank in (0, 1)]
    watched = open_page("/traces/new/", make_member(make_team("ads-ranking")))
    page = watched.page
    page.get_by_label("Traces: drop them here, or choose them").set_input_files(files)
    expect(page.get_by_label("Name of the new job")).to_have_value("rank0")
    page.get_by_label("Name of the new job").fill("Nightly")
    page.get_by_role("button", name="Upload", exact=True).click()
    page.wait_for_url(re.compile(r"/traces/[0-9a-f-]{36}/$"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Nightly v1")
    expect(page.get_by_text("Waits in the queue.")).to_be_visible()
    trace = ModelVersion.objects.get()
    with open_stored(trace.storage_key) as stored, zipfile.ZipFile(io.BytesIO(stored.read())) as archive:
        assert archive.testzip() is None  # each checksum is that of its file
        assert {name: archive.read(name) for name in archive.namelist()} == {f.name: f.read_bytes() for f in files}


def test_a_file_of_another_kind_is_refused_before_it_is_sent(open_page: OpenPage, tmp_path: Path) -> None:
    (tmp_path / "model.pt2").write_bytes(b"PK")
    watched = open_page("/traces/new/", make_member(make_team()))
    page = watched.page
    page.get_by_label("Traces: drop them here, or choose them").set_input_files(tmp_path / "model.pt2")
    page.get_by_role("button", name="Upload", exact=True).click()
    expect(page.get_by_role("alert")).to_have_text("This file is none of: .json .json.gz .zip")
    assert not ModelVersion.objects.exists()


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("theme", THEMES)
def test_a_diagnosis_is_read_narrowed_and_followed_to_a_finding(open_page: OpenPage, language: str, theme: str) -> None:
    trace = make_trace(make_job(make_team()))
    run = diagnosis_run(trace, two_ranks())
    watched = open_page(f"/runs/{run.pk}/diagnosis/", make_member(run.team), language, theme)
    page = watched.page
    drawn = page.locator("svg.timeline path.part-compute")
    expect(drawn).to_be_visible()
    assert drawn.evaluate("path => getComputedStyle(path).fill") not in ("rgb(0, 0, 0)", "none")
    assert watched.barriers() == []
    watched.screenshot("diagnosis", whole=False)
    page.locator("#by-rank").select_option("1")
    page.locator("form:has(#by-rank) button").click()
    finding = page.locator("a[href$='/diagnosis/data_loading/']")
    expect(finding).to_have_count(1)
    finding.click()
    expect(page.locator("path.part-data_loading:not(.is-dim)")).to_be_visible()
    expect(page.locator("path.part-compute.is-dim")).to_be_visible()
    assert watched.barriers() == []
    page.set_viewport_size({"width": 320, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
