"""Headers of every answer, who may see pages, error pages, and the discovery of pages and endpoints."""

from __future__ import annotations

import re

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client

from fuseworks.core import discovery
from fuseworks.core.discovery import Clash, Endpoint, Page, endpoint, page, pages
from tests.platform.factories import client_for, make_member, make_team, make_user

pytestmark = pytest.mark.django_db

ADDRESSES = ["/", "/health/", "/nowhere/", "/sign-in/", "/api/v1/me/", "/static/mark.svg"]


def test_the_home_page_has_a_menu_of_those_pages_that_want_a_place_in_it() -> None:
    text = client_for(make_member(make_team())).get("/").content.decode()
    wanted = {f'href="/{p.address}"' for p in pages() if p.menu is not None}
    assert len(wanted) > 1
    assert wanted <= set(re.findall(r'href="/[^"]*"', text))


def test_somebody_without_a_team_is_told_how_to_get_into_one() -> None:
    assert "You are in no team yet" in client_for(make_user()).get("/").content.decode()


def test_a_stranger_is_sent_to_sign_in_and_comes_back(client: Client) -> None:
    answer = client.get("/teams/?page=2")
    assert (answer.status_code, answer["Location"]) == (302, "/sign-in/?next=/teams/%3Fpage%3D2")


def test_a_form_that_is_sent_after_the_session_ended_leads_back_to_the_page_that_sent_it(client: Client) -> None:
    answer = client.post("/tokens/?x=1", headers={"referer": "http://testserver/tokens/?page=2"})
    assert (answer.status_code, answer["Location"]) == (302, "/sign-in/?next=/tokens/%3Fpage%3D2")


@pytest.mark.parametrize("referer", ["", "https://evil.example/tokens/", "//evil.example/", "http://testserver:99/x"])
def test_a_form_from_nowhere_or_elsewhere_leads_to_the_dashboard(client: Client, referer: str) -> None:
    answer = client.post("/tokens/", headers={"referer": referer} if referer else {})
    assert answer["Location"] == "/sign-in/?next=/"


def test_a_live_part_whose_session_ended_stops_and_sends_the_whole_page_to_sign_in(client: Client) -> None:
    headers = {"HX-Request": "true", "HX-Current-URL": "http://testserver/fleet/?target=cpu"}
    answer = client.get("/dashboard/runs/", headers=headers)
    assert answer.status_code == 286
    assert answer["HX-Redirect"] == "/sign-in/?next=/fleet/%3Ftarget%3Dcpu"
    assert "no-store" in answer["Cache-Control"]
    assert answer.content == b""


@pytest.mark.parametrize("shown", ["https://evil.example/", "//evil.example/x", "javascript:alert(1)", ""])
def test_a_live_part_of_no_page_of_this_site_leads_to_the_dashboard(client: Client, shown: str) -> None:
    answer = client.get("/dashboard/runs/", headers={"HX-Request": "true", "HX-Current-URL": shown})
    assert answer["HX-Redirect"] == "/sign-in/?next=/"


def test_a_live_part_of_who_is_signed_in_is_answered() -> None:
    answer = client_for(make_member(make_team())).get("/dashboard/runs/", headers={"HX-Request": "true"})
    assert answer.status_code == 200
    assert "HX-Redirect" not in answer


def test_a_form_without_the_sessions_secret_gets_a_page_that_says_what_to_do() -> None:
    strict = client_for(make_member(make_team()), enforce_csrf_checks=True)
    answer = strict.post("/tokens/", {"name": "x"})
    text = answer.content.decode()
    assert answer.status_code == 403
    assert "This form is out of date" in text and "load the page again and send it once more" in text
    assert 'id="navigation"' in text  # the site's own page, with its menu


def test_an_address_that_is_none_gets_a_page_that_says_what_to_do(client: Client) -> None:
    answer = client.get("/nowhere/")
    assert answer.status_code == 404
    assert "Check the address" in answer.content.decode()


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


@pytest.mark.parametrize("address", ["/", "/health/", "/teams/", "/tokens/", "/profile/"])
def test_no_page_needs_what_the_policy_forbids(address: str) -> None:
    text = client_for(make_member(make_team())).get(address, headers={"accept": "text/html"}).content.decode()
    assert "<h1" in text
    assert not re.search(r'<script(?![^>]*\b(?:src=|type="application/json"))|<style|\sstyle=|\son[a-z]+=', text)
    assert not re.search(r'(?:src|action)="(?:https?:)?//', text)


def test_every_static_file_that_a_page_names_is_served(client: Client) -> None:
    text = client.get("/health/?format=html").content.decode()
    files = re.findall(r'"(/static/[^"]+)"', text)
    assert files
    assert {client.get(file).status_code for file in files} == {200}


def test_a_page_takes_its_name_from_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "_pages", {})

    @page("things/", title="Things")
    def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse()

    (registered,) = discovery._pages.values()
    assert (registered.name, registered.address) == ("test_site", "things/")
    assert registered.pattern().name == "test_site"


@pytest.mark.parametrize(("name", "address"), [("health", "elsewhere/"), ("elsewhere", "new/")])
def test_two_pages_of_one_name_or_address_stop_start_up(
    monkeypatch: pytest.MonkeyPatch, name: str, address: str
) -> None:
    def old(request: HttpRequest) -> HttpResponse:
        return HttpResponse()

    def new(request: HttpRequest) -> HttpResponse:
        return HttpResponse()

    new.__module__ = "two.health"
    monkeypatch.setattr(discovery, "_pages", {name: Page(name, address, "Old", old)})
    with pytest.raises(Clash) as caught:
        page("new/", title="New")(new)
    assert "two.health" in str(caught.value)
    assert repr(name) in str(caught.value)


def test_two_endpoints_at_one_address_stop_start_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "_endpoints", {"old": Endpoint("old", "things/", object)})
    with pytest.raises(Clash):
        endpoint("things/", name="new")(type("New", (), {}))
