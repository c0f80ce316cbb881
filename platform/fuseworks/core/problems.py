"""Errors as the API tells them: `application/problem+json` (RFC 9457), with the catalogue's id and remedy.

English, whatever the caller's language. A page's script, which comes by the session, gets `told` besides: message and
remedy for the reader of the page.
"""

from __future__ import annotations

import logging
import uuid
from typing import Any, ClassVar

from django.conf import settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import DataError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import set_rollback

from fuseworks.core.discovery import API
from fuseworks.core.errors import PlatformError, known
from fuseworks.core.telling import sentence_of
from optimizer.errors import FuseworksError

CONTENT_TYPE = "application/problem+json"
log = logging.getLogger(__name__)


def problem(error: FuseworksError, status: int, **extra: Any) -> dict[str, Any]:
    """The document of one error. `type` is a URN: ids are stable, addresses of documents are not."""
    return {
        "type": f"urn:fuseworks:error:{error.id}",
        "id": error.id,
        "title": error.message,
        "status": status,
        "detail": error.message,
        "remedy": error.remedy,
        "place": error.place,
        **extra,
    }


def is_of_the_api(request: HttpRequest) -> bool:
    return request.path_info.startswith(f"/{API}")


def problem_answer(request: HttpRequest, error: PlatformError) -> HttpResponse:
    """Of what failed before, beside or after an endpoint: DRF's hook below is not asked then."""
    told = {"told": sentence_of(error)} if _is_of_a_page(request) else {}
    document = problem(error, error.status, **error.extra, **told)
    return JsonResponse(document, status=error.status, content_type=CONTENT_TYPE)


def unforeseen(exception: BaseException) -> PlatformError:
    """What nobody foresaw: logged with a reference that the reader can quote."""
    reference = uuid.uuid4().hex[:12]
    log.error("unforeseen failure %s", reference, exc_info=exception)
    return PlatformError("core:ours:unexpected", reference=reference)


def unstorable(exception: DataError) -> PlatformError:
    """A value that the database does not take, and that no field refused before: the net below the fields."""
    log.warning("a value cannot be stored", exc_info=exception)
    return PlatformError("core:usage:unstorable")


def exception_handler(exception: Exception, context: dict[str, Any]) -> Response:
    """DRF's hook: every exception of an endpoint passes here."""
    set_rollback()
    error = _as_platform_error(exception)
    extra: dict[str, Any] = {}
    if isinstance(exception, exceptions.ValidationError):
        extra["fields"] = exception.detail
    if _is_of_a_page(context.get("request")):
        extra["told"] = sentence_of(error)
    response = Response(
        problem(error, error.status, **error.extra, **extra), status=error.status, content_type=CONTENT_TYPE
    )
    for header in ("auth_header", "wait"):
        value = getattr(exception, header, None)
        if value is not None:
            response.headers["WWW-Authenticate" if header == "auth_header" else "Retry-After"] = str(value)
    return response


def _is_of_a_page(request: Any) -> bool:
    """By its headers and not by its user: the error may be that of finding out who it is."""
    if request is None or "Authorization" in request.headers:
        return False
    return settings.SESSION_COOKIE_NAME in request.COOKIES


def _as_platform_error(exception: Exception) -> PlatformError:
    if isinstance(exception, PlatformError):
        return exception
    if isinstance(exception, RequestDataTooBig):
        return PlatformError("core:usage:body-too-large", limit_bytes=settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
    if isinstance(exception, Http404):
        return PlatformError("core:usage:not-found", what="thing")
    if isinstance(exception, (exceptions.NotAuthenticated, exceptions.AuthenticationFailed)):
        code = str(exception.get_codes())  # an error's id, where whoever refused has one of its own
        return PlatformError(code if known(code) else "core:usage:unauthenticated")
    if isinstance(exception, DataError):
        return unstorable(exception)
    if isinstance(exception, exceptions.ValidationError):
        return PlatformError("core:usage:invalid", text=_flat(exception.detail))
    if isinstance(exception, (PermissionDenied, exceptions.PermissionDenied)):
        return PlatformError("core:usage:refused", text=str(exception) or "permission denied")
    if isinstance(exception, exceptions.APIException):
        return _Other(exception)
    return unforeseen(exception)


class _Other(PlatformError):
    """DRF's own errors (method, media type, rate, parser), with DRF's own status."""

    IDS: ClassVar[dict[int, str]] = {405: "core:usage:method", 415: "core:usage:media-type"}

    def __init__(self, exception: exceptions.APIException) -> None:
        super().__init__(self.IDS.get(exception.status_code, "core:usage:invalid"), text=str(exception.detail))
        self._status = exception.status_code

    @property
    def status(self) -> int:
        return self._status


def _flat(detail: Any, path: str = "") -> str:
    if isinstance(detail, dict):
        return "; ".join(_flat(value, f"{path}.{key}".lstrip(".")) for key, value in detail.items())
    if isinstance(detail, list):
        return "; ".join(_flat(value, path) for value in detail)
    return f"{path}: {detail}" if path and path != "non_field_errors" else str(detail)
