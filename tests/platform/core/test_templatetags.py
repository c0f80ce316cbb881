"""Figures, badges and times as templates show them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.template import Context, Template
from django.test import RequestFactory
from django.utils import timezone, translation

from fuseworks.core import badges
from fuseworks.core.templatetags import frontend as frontend_tags
from fuseworks.runs.models import Purpose, Status
from optimizer.result import EvaluationStatus, Stage, Verdict


def render(source: str, **context: Any) -> str:
    return Template("{% load fuseworks frontend %}" + source).render(Context(context))


# ---- figures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (4.8713, "4.87 ms"),
        (0.012345, "0.0123 ms"),
        (15.06, "15.1 ms"),
        (9.996, "10.0 ms"),
        (99.96, "100 ms"),
        (1234.5678, "1235 ms"),
        (0, "0 ms"),
        (None, "–"),
        (float("nan"), "–"),
        ("", "–"),
    ],
)
def test_milliseconds_have_three_digits_and_no_exponent(value: Any, text: str) -> None:
    assert render("{{ v|ms }}", v=value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1536, "1.50 KiB"),
        (148 * 2**20, "148 MiB"),
        (2**30 - 1, "1.00 GiB"),
        (5 * 2**40, "5.00 TiB"),
        (None, "–"),
    ],
)
def test_sizes_are_in_binary_units(value: Any, text: str) -> None:
    assert render("{{ v|bytes_ }}", v=value) == text


@pytest.mark.parametrize(("value", "text"), [(3.0449, "3.04×"), (0.85, "0.85×"), (1, "1.00×"), (None, "–")])
def test_a_speedup_has_two_decimals(value: Any, text: str) -> None:
    assert render("{{ v|speedup }}", v=value) == text


@pytest.mark.parametrize(("value", "text"), [(0.073, "7.3 %"), (0.02, "2.0 %"), (1, "100.0 %"), (None, "–")])
def test_a_share_is_shown_as_a_percentage(value: Any, text: str) -> None:
    assert render("{{ v|percent }}", v=value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.4, "0.4 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (295, "4 min 55 s"),
        (3599.7, "1 h 0 min"),
        (3720, "1 h 2 min"),
        (7170, "2 h 0 min"),
        (None, "–"),
    ],
)
def test_durations_are_said_in_at_most_two_units(value: Any, text: str) -> None:
    assert render("{{ v|seconds }}", v=value) == text


def test_durations_speak_chinese() -> None:
    with translation.override("zh-hans"):
        assert render("{{ v|seconds }}", v=295) == "4 分 55 秒"


@pytest.mark.parametrize(
    ("low", "high", "text"), [(2.5, 3.714, "[2.50, 3.71]"), (None, 3.0, "–"), (1.0, float("inf"), "–")]
)
def test_an_interval_has_both_ends_or_is_none(low: Any, high: Any, text: str) -> None:
    assert render("{% interval low high %}", low=low, high=high) == text


# ---- badges --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [*Status.values, *EvaluationStatus])
def test_every_status_of_runs_and_candidates_has_a_word_of_its_own(status: str) -> None:
    assert str(status) in badges.STATUSES


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_verdict_has_a_word_of_its_own(verdict: str) -> None:
    assert str(verdict) in badges.VERDICTS


def test_every_stage_and_purpose_has_a_word_of_its_own() -> None:
    assert set(badges.STAGES) == set(Stage)
    assert set(badges.PURPOSES) == set(Purpose.values)


def test_a_badge_has_colour_and_word() -> None:
    assert (
        render("{% status_badge s %}", s=Status.TIMED_OUT)
        == '<span class="badge bg-yellow-lt" data-word="timed_out">timed out</span>'
    )
    assert 'bg-green-lt" data-word="faster">faster<' in render("{% verdict_badge v %}", v="faster")
    assert ">not judged<" in render("{% verdict_badge v %}", v=None)


def test_a_badge_in_chinese_keeps_its_machine_readable_word() -> None:
    with translation.override("zh-hans"):
        badge = render("{% verdict_badge v %}", v="cannot_tell")
    assert 'data-word="cannot_tell"' in badge
    assert ">无法判定<" in badge


def test_an_unknown_word_is_shown_as_it_stands_and_cannot_break_out() -> None:
    assert ">half done<" in render("{% status_badge s %}", s="half_done")
    assert "<script>" not in render("{% status_badge s %}", s="<script>")


# ---- times and digests ---------------------------------------------------------------------------------------------


def test_a_time_says_how_long_ago_and_holds_the_moment() -> None:
    when = timezone.now() - timedelta(minutes=5, seconds=10)
    text = render("{% ago when %}", when=when)
    assert "5\xa0minutes ago" in text
    assert f'datetime="{when.astimezone(UTC).isoformat(timespec="seconds")}"' in text
    moment = datetime(2026, 3, 1, 23, 30, tzinfo=timezone.get_fixed_timezone(60))
    assert 'title="2026-03-01 22:30:00 UTC"' in render("{% ago when %}", when=moment)
    assert render("{% ago when %}", when=None) == "–"


def test_a_digest_is_shortened_and_whole_on_hovering() -> None:
    sha = "0123456789abcdef" * 4
    assert render("{% digest sha %}", sha=sha) == f'<code title="{sha}">0123456789ab</code>'
    assert render("{% digest sha %}", sha="") == "–"


# ---- the built front end -------------------------------------------------------------------------------------------


def test_the_entry_loads_script_and_style_by_the_names_that_the_build_gave_them() -> None:
    tags = render('{% entry "src/main.ts" %}')
    assert 'type="module"' in tags and 'src="/static/assets/main-' in tags
    assert 'rel="stylesheet" href="/static/assets/main-' in tags


def test_without_a_build_the_page_says_in_its_source_what_to_do(settings: Any) -> None:
    settings.FRONTEND_BUILT = False
    assert render('{% entry "src/main.ts" %}') == frontend_tags.NOT_BUILT


@pytest.mark.parametrize(
    ("path", "name", "is_open"),
    [("/", "home", True), ("/health/", "home", False), ("/health/", "health", True), ("/health/x/", "health", True)],
)
def test_a_page_of_the_menu_is_open_with_all_below_it(path: str, name: str, is_open: bool) -> None:
    request = RequestFactory().get(path)
    assert render("{% is_open name as open %}{{ open }}", request=request, name=name) == str(is_open)
