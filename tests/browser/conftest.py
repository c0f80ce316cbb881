"""Fixtures of the browser tests: one Chromium for all, the site in a thread, pages that must not complain."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test import Client
from playwright.sync_api import Browser, sync_playwright

from fuseworks.accounts.models import User
from tests.browser.support import ARGUMENTS, Watched, executable, prepare

# Playwright's synchronous interface runs an event loop in this thread, in which Django would refuse its database.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"

OpenPage = Callable[..., Watched]


@pytest.fixture(autouse=True)
def storage(settings: Any, tmp_path: Path) -> None:
    settings.STORAGE = tmp_path / "storage"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = executable()
    if path is None:
        pytest.skip("no Chromium on PATH")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Browser, live_server: Any) -> Iterator[OpenPage]:
    """`open_page(address, user=None, language="en", theme="light")`: each call is a browser of its own, signed in as
    `user`. Whatever a page's console says at the end fails the test, unless the test expected it."""
    opened: list[Watched] = []

    def open_(address: str, user: User | None = None, language: str = "en", theme: str = "light") -> Watched:
        context = browser.new_context(
            base_url=live_server.url,
            color_scheme="dark" if theme == "dark" else "light",
            locale="en-GB",
            viewport={"width": 1280, "height": 800},
        )
        context.set_default_timeout(15_000)
        prepare(context, live_server.url, language)
        if user is not None:
            sign_in(context, live_server.url, user)
        watched = Watched(context.new_page(), language, theme)
        opened.append(watched)
        watched.page.goto(address)
        return watched

    yield open_
    complaints = [text for watched in opened for text in watched.unexpected]
    for watched in opened:
        watched.page.context.close()
    assert not complaints


def sign_in(context: Any, address: str, user: User) -> None:
    client = Client()
    client.force_login(user)
    name = django_settings.SESSION_COOKIE_NAME
    context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": address, "httpOnly": True}])
