"""Somebody at a browser who reads one language: what he does on each page, and what he must see there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, Locator, Page, Request, Route, expect

from tests.browser.story_platform import Site
from tests.browser.story_words import LANGUAGE_NAMES, OTHER_LANGUAGE, Words
from tests.browser.support import Watched, prepare

CHINESE_PICTURE = "5-comparison"
PICTURES_OF_RUNS = {"optimize": "4-run", "replay": "9-replay"}
THEMES: dict[str, Literal["light", "dark"]] = {"en": "light", "zh-hans": "dark"}
PATIENCE_MS, PLAYWRIGHTS_OWN_MS = 20_000, 5_000
PIECES = "**/api/v1/uploads/*/"


def is_later(request: Request) -> bool:
    """A piece of an upload after the first one."""
    return request.method == "PATCH" and request.headers.get("upload-offset") != "0"


class Visitor:
    def __init__(self, watched: Watched, site: Site) -> None:
        self.watched, self.site = watched, site
        self.page: Page = watched.page
        self.say = Words(watched.language)
        self.pictures: set[str] = set()

    # ---- what is on a page -------------------------------------------------------------------------------------------

    def sees_heading(self, text: str) -> None:
        expect(self.page.get_by_role("heading", level=1)).to_have_text(text)

    def button(self, text: str) -> Locator:
        return self.page.get_by_role("button", name=text, exact=True)

    def link(self, text: str) -> Locator:
        return self.page.locator("main").get_by_role("link", name=text, exact=True)

    def section(self, title: str) -> Locator:
        """The card with this title."""
        return self.page.locator("section, article").filter(has=self.page.get_by_role("heading", name=title))

    def picture(self, name: str) -> None:
        """For docs/story.md, the first one of a name; of the Chinese story one is enough."""
        if name not in self.pictures and (self.watched.language == "en" or name == CHINESE_PICTURE):
            self.pictures.add(name)
            self.page.mouse.move(0, 0)
            self.watched.screenshot(f"story-{name}", whole=False)

    # ---- signing in and out ------------------------------------------------------------------------------------------

    def types_password(self, email: str, password: str) -> None:
        self.page.get_by_label(self.say("E-mail address")).fill(email)
        self.page.get_by_label(self.say("Password"), exact=True).fill(password)
        self.page.locator("#sign-in").get_by_role("button").click()

    def signs_in(self, team: str) -> None:
        """As the owner of a sample team. Whoever is not signed in is led to the form first."""
        self.page.goto("/")
        self.sees_heading(self.say("Sign in"))
        self.types_password(self.site.owners[team], self.site.password)
        self.sees_heading(self.say("Dashboard"))

    def signs_out(self) -> None:
        self.opens_menu("account")
        self.button(self.say("Sign out")).click()
        self.sees_heading(self.say("Sign in"))

    def opens_menu(self, name: str) -> None:
        self.page.wait_for_load_state()  # a menu opens once its script has run
        self.page.locator(f"#{name}-button").click()

    def switches_language_and_back(self) -> None:
        own, other = self.watched.language, OTHER_LANGUAGE[self.watched.language]
        for after in (other, own):
            self.opens_menu("settings")
            self.button(LANGUAGE_NAMES[after]).click()
            self.sees_heading(Words(after)("Dashboard"))
            expect(self.page.locator("html")).to_have_attribute("lang", after)

    # ---- models ------------------------------------------------------------------------------------------------------

    def fills_in_upload(self, file: Path, model: str) -> None:
        self.sees_heading(self.say("Upload a model"))
        self.page.get_by_label(self.say("Name of the new model")).fill(model)
        self.page.get_by_label(self.say("File: drop it here, or choose it")).set_input_files(file)

    def uploads(self, file: Path, model: str) -> None:
        self.fills_in_upload(file, model)
        self.button(self.say("Upload")).click()
        expect(self.page).to_have_url(re.compile(r"/versions/"))

    def uploads_in_pieces(self, file: Path, model: str) -> None:
        """A file of 17 MiB in two pieces; the second is held back until the progress after the first is seen."""
        self.fills_in_upload(file, model)
        held: list[Route] = []
        self.page.route(PIECES, lambda route, request: held.append(route) if is_later(request) else route.continue_())
        with self.page.expect_request(is_later):
            self.button(self.say("Upload")).click()
        progress = self.say("{done} of {total} sent", done="16.0 MiB", total="17.0 MiB")
        expect(self.page.get_by_text(progress)).to_be_visible()
        expect(self.page.get_by_role("progressbar")).to_have_attribute("value", re.compile(r"0\.94"))
        self.picture("2-upload")
        (piece,) = held
        piece.continue_()
        expect(self.page).to_have_url(re.compile(r"/versions/"))
        self.page.unroute(PIECES)

    def sees_inspection(self, model: str) -> None:
        """The page loads anew when the inspection has ended: what was found, and the form of the workload."""
        self.sees_heading(f"{model}\xa0v1")
        found = self.section(self.say("What is in it"))
        expect(found).to_contain_text(re.compile("2,?374,?380"))
        expect(found).to_contain_text(".zip")
        expect(self.section(self.say("Workload: how it is called"))).to_contain_text("history_items")
        expect(self.button(self.say("Save as a new revision"))).to_be_visible()

    def chooses_kind(self, model: str, kind: str) -> None:
        """Then goes back to the version."""
        self.link(model).click()
        self.page.get_by_text(self.say("Edit name, kind and description")).click()
        self.page.get_by_label(self.say("Kind of model")).select_option(label=self.say(kind))
        self.button(self.say("Save")).click()
        expect(self.page.get_by_role("status").filter(has_text=self.say("Saved."))).to_be_visible()
        self.link("v1").click()

    # ---- runs --------------------------------------------------------------------------------------------------------

    def watches_run(self, purpose: str, version: str, stem: str, *, measured: str | None = None) -> None:
        """From its work to its end, on one and the same page: whatever loads it anew forgets the mark."""
        self.sees_heading(f"{version}: {self.say(purpose)}")
        self.page.evaluate("document.body.dataset.story = 'not loaded anew'")
        status = self.page.locator("#run-status")
        expect(status).to_have_text(self.say("running"))
        current = self.page.locator("[data-state=current]")
        expect(current).to_contain_text(self.say("benchmarking"))
        expect(self.page.locator("#run-log")).to_contain_text("Judging the winner 5/12")
        if measured is not None:
            expect(self.section(self.say("First measurements"))).to_contain_text(measured)
        self.picture(PICTURES_OF_RUNS[purpose])
        self.site.release(purpose, stem)
        expect(status).to_contain_text(self.say("succeeded"))
        expect(status).to_contain_text(self.say("faster"))
        expect(current).to_have_count(0)
        expect(self.page.locator("#run-log[hx-get]")).to_have_count(0)  # nothing asks for news of it any more
        expect(self.section(self.say("Files"))).to_contain_text("package.zip")
        expect(self.page.locator("body")).to_have_attribute("data-story", "not loaded anew")

    # ---- recipes -----------------------------------------------------------------------------------------------------

    def evidence(self) -> Locator:
        return self.section(self.say("Evidence")).locator("tbody tr")


NewVisitor = Callable[..., Visitor]


@contextmanager
def visiting(browser: Browser, site: Site) -> Iterator[NewVisitor]:
    """`new("en")`: a visitor with a browser of his own. What a console says that he did not expect fails at the end."""
    made: list[Watched] = []
    expect.set_options(timeout=PATIENCE_MS)

    def new(language: str, **more: Any) -> Visitor:
        theme = THEMES[language]
        context = browser.new_context(
            base_url=site.url, color_scheme=theme, locale="en-GB", viewport={"width": 1280, "height": 800}, **more
        )
        context.set_default_timeout(PATIENCE_MS)
        prepare(context, site.url, language)
        made.append(Watched(context.new_page(), language, theme))
        return Visitor(made[-1], site)

    try:
        yield new
    finally:
        expect.set_options(timeout=PLAYWRIGHTS_OWN_MS)
        for watched in made:
            watched.page.context.close()
    complaints = [text for watched in made for text in watched.unexpected]
    assert not complaints, complaints
