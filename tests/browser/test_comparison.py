"""The comparison page in a browser: its charts are drawn under the security policy, and nothing bars a reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenPage
from tests.browser.support import LANGUAGES, THEMES
from tests.platform.factories import make_member, make_model, make_team, make_version
from tests.platform.results.support import DOCUMENTS, compared, document, finished_run, keep_file, two_versions
from tests.platform.results.test_operations import profiled

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def storage(settings: Any, tmp_path: Path) -> None:
    settings.STORAGE = tmp_path / "storage"


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("theme", THEMES)
def test_before_and_after_are_drawn_in_every_language_and_theme(open_page: OpenPage, language: str, theme: str) -> None:
    run = finished_run(document("din"))
    keep_file(run, "samples.json", (DOCUMENTS / "din_samples.json").read_bytes())
    keep_file(run, "package.zip", b"PK")
    keep_file(run, "report.html", b"<p>report</p>")
    shown = open_page(f"/runs/{run.pk}/comparison/", make_member(run.team), language, theme)
    charts = shown.page.locator("[data-island=ecdf], [data-island=intervals]")
    expect(charts).to_have_count(3)
    for chart in charts.all():
        expect(chart.locator("svg")).to_be_visible()
        assert chart.locator("svg path, svg polyline, svg circle").count() > 2
    shown.screenshot("comparison", whole=False)
    assert shown.barriers() == []


def test_a_tooltip_of_a_chart_breaks_no_rule(open_page: OpenPage) -> None:
    run = finished_run(document("din"))
    shown = open_page(f"/runs/{run.pk}/comparison/", make_member(run.team))
    chart = shown.page.locator("[data-source=ablation-bars]")
    chart.scroll_into_view_if_needed()
    expect(chart.locator("svg")).to_be_visible()
    dot = chart.locator("svg path[d*='5 0']").first  # of the first step: an arc with a radius of 5
    dot.hover()
    expect(chart.locator("text", has_text="[0.77, 1.59]")).to_be_visible()


@pytest.mark.parametrize("theme", THEMES)
def test_two_versions_and_runs_beside_each_other(open_page: OpenPage, theme: str) -> None:
    before, after = two_versions(make_team("ads-ranking"))
    reader = make_member(before.model.team)
    run = finished_run(compared(before, low=1.25, high=1.6, verdict="faster"), after, against=before)
    shown = open_page(f"/runs/{run.pk}/comparison/", reader, theme=theme)
    expect(shown.page.get_by_role("heading", level=1)).to_contain_text("DIN v2 is faster than DIN v1")
    assert shown.barriers() == []

    for name in ("First", "Second"):
        finished_run(document("din"), make_version(make_model(before.model.team, name), name.encode()))
    shown.page.goto("/comparisons/")
    shown.page.get_by_label("First v1").check()
    shown.page.get_by_label("Second v1").check()
    assert shown.barriers() == []
    shown.page.get_by_role("button", name="Compare", exact=True).click()
    expect(shown.page.get_by_role("heading", level=1)).to_have_text("Runs beside each other")
    expect(shown.page.get_by_text("Derived, not measured")).to_be_visible()
    shown.screenshot("comparisons")
    assert shown.barriers() == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_operations_before_and_after_are_readable_on_a_narrow_page(open_page: OpenPage, language: str) -> None:
    run = finished_run(profiled())
    shown = open_page(f"/runs/{run.pk}/comparison/", make_member(run.team), language)
    shown.page.set_viewport_size({"width": 320, "height": 800})
    card = shown.page.locator("section[aria-labelledby=operations]")
    expect(card.get_by_text("_linear_pointwise")).to_be_visible()
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= 320, "the table scrolls, not the page"
    cell = card.locator("td.operations").first.bounding_box()
    assert cell is not None
    assert cell["width"] >= 200, "a word is not broken into letters"
    assert [barrier for barrier in shown.barriers() if "operations" in barrier] == []


def test_all_columns_of_the_answers_are_seen_on_a_desk_without_scrolling(open_page: OpenPage) -> None:
    run = finished_run(document("din"))
    shown = open_page(f"/runs/{run.pk}/comparison/", make_member(run.team))
    shown.page.set_viewport_size({"width": 1300, "height": 900})
    card = shown.page.locator("section[aria-labelledby=numerics]")
    around, table = card.locator(".table-responsive").bounding_box(), card.locator("table").bounding_box()
    assert around is not None and table is not None
    assert table["width"] <= around["width"] + 1
    name = card.locator("tbody th").first.bounding_box()
    assert name is not None and name["width"] >= 200, "an output's name is not squeezed"
