"""Below the API's address everything that fails is a problem document, whoever noticed it."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from django.utils import translation
from django.utils.module_loading import import_string

from fuseworks import urls
from fuseworks.core.errors import PlatformError
from fuseworks.core.middleware import PlatformErrorMiddleware
from fuseworks.core.problems import CONTENT_TYPE
from tests.platform import factories

pytestmark = pytest.mark.django_db
HANDLERS = {
    404: (urls.handler404, "core:usage:not-found"),
    403: (urls.handler403, "core:usage:refused"),
    400: (urls.handler400, "core:usage:invalid"),
    500: (urls.handler500, "core:ours:unexpected"),
}


def handled(status: int, path: str) -> HttpResponse:
    handler, request = import_string(HANDLERS[status][0]), RequestFactory().get(path)
    request.user = factories.make_user()
    given = {400: [SuspiciousOperation("odd")], 403: [PermissionDenied("no")], 404: [None]}.get(status, [])
    answer: HttpResponse = handler(request, *given)
    return answer


@pytest.mark.parametrize("method", ["get", "post", "put", "patch", "delete"])
@pytest.mark.parametrize("path", ["nowhere/", "runs/no-uuid/", "runs/nowhere/at/all"])
def test_an_address_that_is_not_there(client: Client, method: str, path: str) -> None:
    answer = getattr(client, method)(f"/api/v1/{path}", headers={"accept-language": "zh-hans"})
    assert (answer.status_code, answer.headers["Content-Type"]) == (404, CONTENT_TYPE)
    told = answer.json()
    assert (told["id"], told["status"]) == ("core:usage:not-found", 404)
    assert told["title"] == "There is no such address here, or you may not see it."
    assert "told" not in told


def test_a_pages_script_is_told_in_the_readers_language_besides() -> None:
    client = factories.client_for(factories.make_user())
    told = client.get("/api/v1/nowhere/", headers={"accept-language": "zh-hans"}).json()["told"]
    assert told.startswith("这里没有这样的地址，或者您无权查看。")


@pytest.mark.parametrize("status", HANDLERS)
def test_each_handler_of_the_site_answers_a_problem_there_and_a_page_elsewhere(status: int) -> None:
    answer = handled(status, "/api/v1/runs/")
    assert (answer.status_code, answer.headers["Content-Type"]) == (status, CONTENT_TYPE)
    assert f'"{HANDLERS[status][1]}"' in answer.content.decode()
    with translation.override("en"):
        page = handled(status, "/api-of-a-page/")
    assert (page.status_code, page.headers["Content-Type"]) == (status, "text/html; charset=utf-8")


def test_what_a_middleware_meets_there_is_a_problem_too() -> None:
    def unreached(request: HttpRequest) -> HttpResponse:
        raise AssertionError("not called")

    error = PlatformError("core:usage:forbidden", team="a", role="viewer", needed="member")
    answer: Any = PlatformErrorMiddleware(unreached).process_exception(RequestFactory().get("/api/v1/runs/"), error)
    assert (answer.status_code, answer.headers["Content-Type"]) == (403, CONTENT_TYPE)


@pytest.mark.parametrize("header", ["Bearer", "bearer", "Bearer one two"])
@pytest.mark.parametrize(
    ("method", "path"),
    [("get", "me/"), ("post", "worker/hello/"), ("post", "worker/runs/00000000-0000-0000-0000-000000000000/claim/")],
)
def test_a_header_without_one_token_is_refused_alike_everywhere(
    client: Client, method: str, path: str, header: str
) -> None:
    answer = getattr(client, method)(f"/api/v1/{path}", headers={"authorization": header})
    assert (answer.status_code, answer.json()["id"]) == (401, "core:usage:unauthenticated")
    assert answer.headers["WWW-Authenticate"] == "Bearer"
