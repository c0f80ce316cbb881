"""The security headers that Django's own middleware does not set: a strict content security policy and permissions.

No inline script or style passes, on purpose: a page that needs one is a page to change.
"""

from __future__ import annotations

from django.db import DataError
from django.http import HttpRequest, HttpResponseBase
from django.utils.deprecation import MiddlewareMixin

from fuseworks.core.errors import PlatformError

CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)
PERMISSIONS_POLICY = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"


class PageHeadersMiddleware(MiddlewareMixin):
    """On every answer, errors and static files too."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        response.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        response.headers.setdefault("Permissions-Policy", PERMISSIONS_POLICY)
        return response


class PlatformErrorMiddleware(MiddlewareMixin):
    """Makes a page of an expected failure that a page's view raised. The API makes its own answers."""

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponseBase | None:
        from fuseworks.core.error_pages import error_page
        from fuseworks.core.problems import unstorable

        if isinstance(exception, DataError):
            exception = unstorable(exception)
        return error_page(request, exception) if isinstance(exception, PlatformError) else None
