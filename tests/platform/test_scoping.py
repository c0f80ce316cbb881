"""Walks every page and every endpoint as everybody who might call it.

A page or an endpoint that is not in the tables of `tests/platform/scoping` fails here: whoever adds one says there who
may use it.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from fuseworks.accounts.models import User
from fuseworks.core.discovery import endpoints, pages
from fuseworks.core.errors import PlatformError
from tests.platform.factories import api_for, client_for
from tests.platform.scoping import other_endpoints, other_pages, own_endpoints, own_pages
from tests.platform.scoping.rules import ACTORS, KEPT_OUT, OK, SIGN_IN, WORKERS, Case, Rule, expected
from tests.platform.scoping.world import SECRET, World

pytestmark = pytest.mark.django_db

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
PAGES: dict[str, Case] = {**own_pages.PAGES, **other_pages.PAGES}
ENDPOINTS: dict[str, Case] = {**own_endpoints.ENDPOINTS, **other_endpoints.ENDPOINTS}
PAGE_ACTORS = tuple(actor for actor in ACTORS if actor not in ("reader", "elsewhere", "expired", "left"))


@pytest.fixture
def world(settings: Any, tmp_path: Path) -> World:
    settings.STORAGE = tmp_path / "storage"
    return World()


def each(cases: dict[str, Case]) -> list[Any]:
    return [pytest.param(name, method, id=f"{method} {name}") for name, case in cases.items() for method in case.rules]


def test_every_page_is_in_the_table_and_nothing_else() -> None:
    assert sorted(PAGES) == sorted(page.name for page in pages())


def test_every_endpoint_is_in_the_table_and_nothing_else() -> None:
    assert sorted(ENDPOINTS) == sorted(endpoint.name for endpoint in endpoints())


@pytest.mark.parametrize(("name", "method"), each(PAGES))
def test_a_page_lets_in_whom_the_table_says(world: World, name: str, method: str) -> None:
    walk(world, PAGES[name], name, method, PAGE_ACTORS, is_page=True)


@pytest.mark.parametrize(("name", "method"), each(ENDPOINTS))
def test_an_endpoint_lets_in_whom_the_table_says(world: World, name: str, method: str) -> None:
    walk(world, ENDPOINTS[name], f"api:{name}", method, ACTORS, is_page=False)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_no_methods_but_those_of_the_table(world: World, name: str) -> None:
    left = [m for m in METHODS if m not in PAGES[name].rules]
    client, address = client_for(world.people["owner"]), reverse(name, kwargs=PAGES[name].at(world))
    answers = {m: client.generic(m, address) for m in left}
    read = answers.pop("GET", None)
    assert {m: answer.status_code for m, answer in answers.items()} == dict.fromkeys(answers, 405)
    # a refused form leaves its own address in the browser: who asks for it again is shown the page above it
    assert read is None or name == "sign_out" or address.startswith(read.headers["Location"])


@pytest.mark.parametrize("name", ENDPOINTS)
def test_an_endpoint_has_no_methods_but_those_of_the_table(world: World, name: str) -> None:
    case = ENDPOINTS[name]
    left = [m for m in METHODS if m not in case.rules]
    client, address = api_for(world.people["owner"]), reverse(f"api:{name}", kwargs=case.at(world))
    refused = {401, 403, 405} if WORKERS in {rule.audience for rule in case.rules.values()} else {405}
    assert [m for m in left if client.generic(m, address).status_code not in refused] == []


@pytest.mark.parametrize("name", [name for name, case in PAGES.items() if "POST" in case.rules])
def test_a_form_of_another_site_changes_nothing(world: World, name: str) -> None:
    client = client_for(world.people["owner"], enforce_csrf_checks=True)
    answer = send(client, world, PAGES[name], name, "POST", is_page=True)
    assert answer.status_code == 403
    assert PlatformError("core:usage:form-expired").message in html.unescape(answer.content.decode())


@pytest.mark.parametrize(
    ("name", "method"), [p for p in each(ENDPOINTS) if p.values[1] != "GET" and p.values[0] != "docs"]
)
def test_a_script_of_another_site_changes_nothing(world: World, name: str, method: str) -> None:
    api = api_for(world.people["owner"], enforce_csrf_checks=True)
    answer = send(api, world, ENDPOINTS[name], f"api:{name}", method, is_page=False)
    assert answer.status_code in (401, 403)


ABOUT_A_RUN = ["run", "run_live", "run_comparison", "api:run-detail", "api:run-result", "api:gate-detail"]
IN_LISTS = ["runs", "gates", "home", "api:runs", "api:gates"]
EXPORTS = [("run_comparison", "json"), ("run_comparison", "csv"), ("api:run-result", "csv")]


@pytest.mark.parametrize(
    ("name", "query"),
    [*((name, "") for name in [*ABOUT_A_RUN, *IN_LISTS]), *((name, f"?format={how}") for name, how in EXPORTS)],
)
def test_a_run_does_not_tell_of_another_teams_version_that_it_compares_with(
    world: World, name: str, query: str
) -> None:
    address = reverse(name, args=[] if name in IN_LISTS else [world.across.pk]) + query
    for actor in ("outsider", *(["elsewhere"] if name.startswith("api:") else [])):
        answer = client_of(world, actor, is_page=not name.startswith("api:")).get(address)
        shown = text(answer)
        assert answer.status_code in (200, 286)  # htmx is told to stop
        assert "quagga model" in shown or name in ("run_live", "api:gates")
        told = [one for one in (SECRET, str(world.version.pk), world.version.sha256) if one in shown]
        assert told == [], actor


@pytest.mark.parametrize("name", [name for name in ABOUT_A_RUN if name != "run_live"])
def test_whoever_may_read_in_both_teams_is_told_what_a_run_compares_with(world: World, name: str) -> None:
    answer = api_for(world.people["owner"]).get(reverse(name, args=[world.across.pk]))
    assert str(world.version.pk) in text(answer)


def walk(world: World, case: Case, name: str, method: str, actors: tuple[str, ...], *, is_page: bool) -> None:
    """Each actor finds the world as it was: what the one before did is rolled back."""
    rule, wrong = case.rules[method], {}
    for actor in actors:
        with transaction.atomic():
            answer = send(client_of(world, actor, is_page=is_page), world, case, name, method, is_page=is_page)
            got, body = outcome(answer, rule, is_page=is_page), text(answer)
            transaction.set_rollback(True)
        if not as_expected(rule, method, actor, got, is_page=is_page):
            wrong[actor] = f"got {got}, expected {expected(rule, method, actor, is_page=is_page)}: {body[:300]}"
        elif actor in KEPT_OUT and not rule.shows_the_team and SECRET in body:
            wrong[actor] = f"reads of the team: {body[max(0, body.index(SECRET) - 200) :][:400]}"
    assert not wrong


def as_expected(rule: Rule, method: str, actor: str, got: str | int, *, is_page: bool) -> bool:
    if rule.audience == WORKERS:
        return got in (401, 403)
    wanted = expected(rule, method, actor, is_page=is_page)
    return got == wanted or (wanted == OK and isinstance(got, int) and got < 400)


def client_of(world: World, actor: str, *, is_page: bool) -> Client:
    if actor == "stranger":
        return Client() if is_page else APIClient()
    who: User | str = world.people[actor] if actor in world.people else world.tokens[actor]
    if not is_page:
        return api_for(who)
    return client_for(who) if isinstance(who, User) else Client(headers={"authorization": f"Bearer {who}"})


def send(client: Client, world: World, case: Case, name: str, method: str, *, is_page: bool) -> Any:
    rule = case.rules[method]
    address = reverse(name, kwargs=case.at(world))
    if rule.query is not None:
        address += f"?{rule.query(world)}"
    if rule.raw is not None:
        headers = {key: value for key, value in rule.headers.items() if key != "Content-Type"}
        return client.generic(method, address, rule.raw, content_type=rule.headers["Content-Type"], headers=headers)
    body = rule.body(world) if rule.body is not None else None
    if isinstance(client, APIClient):
        return getattr(client, method.lower())(address, body, format="json" if method != "GET" else None)
    return client.generic(method, address) if body is None else client.post(address, body)


def outcome(answer: Any, rule: Rule, *, is_page: bool) -> str | int:
    to_sign_in = answer.status_code == 302 and answer["Location"].startswith("/sign-in/?next=")
    return SIGN_IN if is_page and to_sign_in else int(answer.status_code)


def text(answer: Any) -> str:
    """What the reader gets, without the address that he himself gave."""
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    shown = content.decode(errors="replace").lower() + str(answer.headers.get("Content-Disposition", "")).lower()
    for given in (answer.request["PATH_INFO"], answer.request["PATH_INFO"].replace("/", "%2f")):
        shown = shown.replace(given.lower(), "")
    return shown
