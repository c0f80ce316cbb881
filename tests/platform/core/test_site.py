"""The home page, the headers of every answer, and the discovery of pages."""

from __future__ import annotations

import re

import pytest
from django.http import HttpResponse
from django.test import Client

from fuseworks.core import discovery
from fuseworks.core.discovery import Page, PageClash, page, pages

ADDRESSES = ["/", "/health/", "/nowhere/", "/static/site.css"]


def test_the_home_page_links_every_other_page(client: Client) -> None:
    text = client.get("/").content.decode()
    assert {f'href="/{p.address}"' for p in pages()} <= set(re.findall(r'href="/[^"]*"', text))
    assert [p.name for p in pages()] == ["home", "health"]


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_answer_forbids_frames_sniffing_and_foreign_or_inline_code(client: Client, address: str) -> None:
    headers = client.get(address).headers
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"
    assert "camera=()" in headers["Permissions-Policy"]


@pytest.mark.parametrize("address", ["/", "/health/"])
def test_no_page_needs_what_the_policy_forbids(client: Client, address: str) -> None:
    text = client.get(address, headers={"accept": "text/html"}).content.decode()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon[a-z]+=|https?://", text)


def test_every_static_file_that_a_page_names_is_served(client: Client) -> None:
    text = client.get("/").content.decode()
    files = re.findall(r'"(/static/[^"]+)"', text)
    assert files
    assert {client.get(file).status_code for file in files} == {200}


def test_a_page_takes_its_name_from_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "_registered", {})

    @page("recipes/", title="Recipes")
    def view(request: object) -> HttpResponse:
        return HttpResponse()

    (registered,) = discovery._registered.values()
    assert (registered.name, registered.address) == ("test_site", "recipes/")
    assert registered.pattern().name == "test_site"


@pytest.mark.parametrize(("name", "address"), [("health", "elsewhere/"), ("elsewhere", "new/")])
def test_two_pages_of_one_name_or_address_stop_start_up(
    monkeypatch: pytest.MonkeyPatch, name: str, address: str
) -> None:
    def old(request: object) -> HttpResponse:
        return HttpResponse()

    def new(request: object) -> HttpResponse:
        return HttpResponse()

    old.__module__, new.__module__ = f"one.{name}", "two.health"
    monkeypatch.setattr(discovery, "_registered", {name: Page(name, address, "Old", old)})
    with pytest.raises(PageClash) as caught:
        page("new/", title="New")(new)
    assert "two.health" in str(caught.value)
    assert f"one.{name}" in str(caught.value)
