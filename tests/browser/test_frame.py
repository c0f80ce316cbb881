"""The frame of all pages in a real browser: languages, themes, menus, the keyboard, the API's reference, live parts."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse
from playwright.sync_api import expect

from fuseworks.accounts.models import User
from fuseworks.runs.models import Run
from tests.browser.conftest import OpenPage
from tests.browser.support import LANGUAGES, THEMES
from tests.platform import factories as make

pytestmark = pytest.mark.django_db(transaction=True)

HEADINGS = {"en": "Dashboard", "zh-hans": "概览"}


@pytest.fixture
def member() -> User:
    """Of a team with two models, a run at work, and a result."""
    team = make.make_team("ads-ranking")
    version = make.make_version(make.make_model(team, "DIN ranking"))
    make.make_version(make.make_model(team, "BERT encoder"))
    make.make_run(version, status="running", stage="verifying", progress={"at_s": 62.0, "budget_s": 310.0})
    make.make_result(make.make_run(version, status="succeeded"))
    return make.make_member(team, user=make.make_user("ada@example.com", name="Ada"))


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_dashboard_works_and_can_be_read(open_page: OpenPage, member: User, language: str, theme: str) -> None:
    watched = open_page("/", member, language, theme)
    expect(watched.page.locator("h1")).to_have_text(HEADINGS[language])
    expect(watched.page.locator("html")).to_have_attribute("data-bs-theme", theme)
    expect(watched.page.locator("html")).to_have_attribute("lang", language)
    expect(watched.page.locator("#active-title")).to_be_visible()
    assert watched.barriers() == []
    watched.screenshot("dashboard")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_beginner_finds_the_first_steps(open_page: OpenPage, language: str, theme: str) -> None:
    watched = open_page("/", make.make_member(make.make_team()), language, theme)
    expect(watched.page.locator("#first-commands")).to_contain_text("fuseworks submit examples/din.py --wait")
    assert watched.barriers() == []
    watched.screenshot("first-steps")


@pytest.mark.parametrize("theme", THEMES)
def test_a_missing_page_can_be_read(open_page: OpenPage, member: User, theme: str) -> None:
    watched = open_page("/nowhere/", member, theme=theme)
    watched.expected.append("404")
    expect(watched.page.locator("h1")).to_have_text("Not found")
    assert watched.barriers() == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_health_page_can_be_read_by_a_stranger(open_page: OpenPage, language: str) -> None:
    watched = open_page(reverse("health"), language=language)
    expect(watched.page.locator("table")).to_be_visible()
    assert watched.barriers() == []


def test_the_language_is_chosen_in_the_menu_and_stays(open_page: OpenPage, member: User) -> None:
    page = open_page("/", member).page
    page.get_by_role("button", name="English").click()
    page.get_by_role("button", name="简体中文").click()
    expect(page.locator("h1")).to_have_text("概览")
    page.goto(reverse("models"))
    expect(page.locator("html")).to_have_attribute("lang", "zh-hans")


def test_the_theme_is_chosen_in_the_menu_and_stays_without_a_flash(open_page: OpenPage, member: User) -> None:
    page = open_page("/", member).page
    root = page.locator("html")
    page.get_by_role("button", name="English").click()
    page.get_by_role("button", name="Dark").click()
    expect(root).to_have_attribute("data-bs-theme", "dark")
    page.goto(reverse("health"), wait_until="commit")
    page.wait_for_selector("body", state="attached")
    assert root.get_attribute("data-bs-theme") == "dark"
    page.get_by_role("button", name="English").click()
    page.get_by_role("button", name="As the system").click()
    expect(root).to_have_attribute("data-bs-theme", "light")
    page.emulate_media(color_scheme="dark")
    expect(root).to_have_attribute("data-bs-theme", "dark")


def test_the_keyboard_skips_to_the_content_and_shows_where_it_is(open_page: OpenPage, member: User) -> None:
    page = open_page("/", member).page
    page.keyboard.press("Tab")
    skip = page.locator(".skip-link")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("#content")).to_be_focused()
    page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


@pytest.mark.parametrize("width", [375, 768])
def test_on_a_narrow_screen_the_menu_opens_and_nothing_overflows(open_page: OpenPage, member: User, width: int) -> None:
    page = open_page("/", member).page
    page.set_viewport_size({"width": width, "height": 700})
    page.get_by_role("button", name="Menu").click()
    expect(page.get_by_role("link", name="Models", exact=True)).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_button_copies_commands(open_page: OpenPage) -> None:
    watched = open_page("/", make.make_member(make.make_team()))
    watched.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = watched.page.locator("[data-island=copy]")
    button.click()
    expect(button).to_have_text("Copied")
    assert re.fullmatch(
        r"fuseworks login http://\S+\nfuseworks submit examples/din\.py --wait",
        watched.page.evaluate("navigator.clipboard.readText()"),
    )


def test_a_run_that_ends_appears_among_the_results_without_a_reload(open_page: OpenPage, member: User) -> None:
    page = open_page("/", member).page
    run = Run.objects.get(status="running")
    expect(page.locator(f"#active-{run.pk}")).to_be_visible()
    page.evaluate("window.neverReloaded = true")
    Run.objects.filter(pk=run.pk).update(status="failed", ended_at=run.created_at)
    expect(page.locator(f"#finished-{run.pk}")).to_be_visible()
    expect(page.locator(f"#active-{run.pk}")).to_have_count(0)
    assert page.evaluate("window.neverReloaded") is True


def test_a_site_that_does_not_answer_is_told_and_forgotten_when_it_does(open_page: OpenPage, member: User) -> None:
    watched = open_page("/", member)
    watched.expected += ["ERR_INTERNET_DISCONNECTED", "htmx:"]
    notice = watched.page.locator("#offline")
    expect(notice).to_be_hidden()
    watched.page.context.set_offline(True)
    expect(notice).to_be_visible()
    watched.page.context.set_offline(False)
    expect(notice).to_be_hidden()


def test_signing_out_leaves_nothing_behind_the_back_button(open_page: OpenPage, member: User) -> None:
    page = open_page("/", member).page
    page.get_by_role("button", name="Ada").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(re.compile(re.escape(reverse("sign_in"))))
    page.go_back()
    expect(page).to_have_url(re.compile(re.escape(reverse("sign_in"))))
    assert page.evaluate("localStorage.length") == 0


def test_the_api_reference_is_drawn_under_the_strict_policy(open_page: OpenPage, member: User) -> None:
    watched = open_page(reverse("apidocs"), member)
    expect(watched.page.locator(".swagger-ui .opblock").first).to_be_visible()
    watched.screenshot("api-reference", whole=False)
