"""Errors as pages: what is wrong, and what to do now. Below the API's address they are problems, as its endpoints tell
them."""

from __future__ import annotations

import logging
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from fuseworks.core.errors import PlatformError
from fuseworks.core.problems import is_of_the_api, problem_answer, unforeseen

log = logging.getLogger(__name__)


def error_page(request: HttpRequest, error: PlatformError) -> HttpResponse:
    if is_of_the_api(request):
        return problem_answer(request, error)
    return render(request, "core/error.html", {"error": error}, status=error.status)


def not_found(request: HttpRequest, exception: Any = None) -> HttpResponse:
    what = "address" if is_of_the_api(request) else "page"
    return error_page(request, PlatformError("core:usage:not-found", what=what))


def forbidden(request: HttpRequest, exception: Any = None) -> HttpResponse:
    return error_page(request, PlatformError("core:usage:refused", text=str(exception or "permission denied")))


def form_expired(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form without the session's secret: sent after signing in or out elsewhere, or by another site."""
    log.warning("a form was refused at %s: %s", request.path, reason)
    return error_page(request, PlatformError("core:usage:form-expired"))


def bad_request(request: HttpRequest, exception: Any = None) -> HttpResponse:
    return error_page(request, PlatformError("core:usage:invalid", text=str(exception or "bad request")))


def server_error(request: HttpRequest) -> HttpResponse:
    import sys

    return error_page(request, unforeseen(sys.exc_info()[1] or RuntimeError("no exception")))
