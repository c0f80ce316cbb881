"""What all pages share: the frame with menu, language and sign-out, errors as pages, and the API's reference."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client, RequestFactory
from django.urls import reverse

from fuseworks.core import error_pages
from fuseworks.core.errors import PlatformError
from tests.platform import factories as make

pytestmark = pytest.mark.django_db


@pytest.fixture
def client_() -> Client:
    return make.client_for(make.make_member(make.make_team(), user=make.make_user("ada@example.com")))


# ---- the frame -----------------------------------------------------------------------------------------------------


def test_the_menu_marks_the_page_that_is_open(client_: Client) -> None:
    text = client_.get("/").content.decode()
    assert re.findall(r'<a class="nav-link active" href="(/[^"]*)" aria-current="page">', text) == ["/"]
    assert f'href="{reverse("models")}"' in text


def test_the_account_menu_leads_to_teams_tokens_and_sign_out(client_: Client) -> None:
    text = client_.get("/").content.decode()
    assert "ada@example.com" in text
    assert {f'href="{reverse("teams")}"', f'href="{reverse("tokens")}"'} <= set(re.findall(r'href="[^"]*"', text))
    assert f'action="{reverse("sign_out")}" method="post"' in text


def test_a_stranger_sees_no_menu_but_can_sign_in(client: Client) -> None:
    text = client.get(reverse("health"), headers={"accept": "text/html"}).content.decode()
    assert f'href="{reverse("sign_in")}"' in text
    assert reverse("models") not in text


def test_the_language_switch_changes_the_page_and_stays(client_: Client) -> None:
    answer = client_.post(reverse("set_language"), {"language": "zh-hans", "next": "/"})
    assert answer.headers["Location"] == "/"
    text = client_.get("/").content.decode()
    assert '<html lang="zh-hans">' in text
    assert "概览" in text
    assert "Dashboard" not in text


@pytest.mark.parametrize(("asked", "language"), [("zh-CN,zh;q=0.9", "zh-hans"), ("de", "en"), ("en-GB", "en")])
def test_a_first_visit_is_in_the_browsers_language(client: Client, asked: str, language: str) -> None:
    text = client.get(reverse("health"), headers={"accept": "text/html", "accept-language": asked}).content.decode()
    assert f'<html lang="{language}">' in text


def test_the_theme_is_applied_before_anything_is_painted(client_: Client) -> None:
    head = client_.get("/").content.decode().partition("</head>")[0]
    blocking = re.findall(r'<script src="([^"]+)"></script>', head)
    assert blocking == ["/static/theme.js"]
    assert head.index("theme.js") < head.index('rel="stylesheet"')


# ---- errors --------------------------------------------------------------------------------------------------------


def test_a_missing_page_says_what_to_do(client_: Client) -> None:
    response = client_.get("/nowhere/")
    text = response.content.decode()
    assert response.status_code == 404
    assert "There is no such page here" in text
    assert "core:usage:not-found" in text


def request_of(client: Client) -> Any:
    request = RequestFactory().get("/")
    request.user = client.get("/").wsgi_request.user
    return request


def test_an_error_of_ours_asks_the_database_nothing_and_shows_its_reference() -> None:
    request = RequestFactory().get("/")

    class Broken:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"the page asked for the user's {name}")

    request.user = Broken()  # type: ignore[assignment]
    with connection.execute_wrapper(_no_queries):
        response = error_pages.error_page(request, PlatformError("core:ours:unexpected", reference="abc123"))
    assert response.status_code == 500
    assert "<code>abc123</code>" in response.content.decode()


def _no_queries(*arguments: Any) -> Any:
    raise AssertionError("a query")


def test_an_error_names_the_place_and_cannot_inject_markup() -> None:
    request = RequestFactory().get("/")
    error = PlatformError("core:usage:invalid", text="<b>bold</b>", place="name")
    response = error_pages.error_page(request, error)
    text = response.content.decode()
    assert response.status_code == 400
    assert "<b>bold" not in text and "&lt;b&gt;bold" in text
    assert ">name<" in text


# ---- the API's reference -------------------------------------------------------------------------------------------


def test_the_schema_is_openapi_3_1_in_json_for_everybody(client: Client) -> None:
    response = client.get("/api/v1/schema/")
    document = response.json()
    assert response.status_code == 200
    assert document["openapi"] == "3.1.0"
    assert "/api/v1/runs/" in document["paths"]


def test_the_reference_loads_swagger_from_this_site(client: Client) -> None:
    text = client.get(reverse("apidocs")).content.decode()
    files = re.findall(r'data-(?:script|style)="(/static/[^"]+)"', text)
    assert len(files) == 2
    assert {client.get(file).status_code for file in files} == {200}
    assert 'data-schema="/api/v1/schema/"' in text


def test_a_browser_that_asks_the_api_for_documentation_is_sent_there(client: Client) -> None:
    assert client.get("/api/v1/docs/").headers["Location"] == reverse("apidocs")
