"""The site's addresses: what modules of the apps' `pages/` and `api/` registered. Nothing is listed here by hand."""

from __future__ import annotations

from typing import Any

from django.urls import include, path

from fuseworks.core.discovery import API, endpoints, pages

urlpatterns: list[Any] = [
    path(API, include(([e.pattern() for e in endpoints()], "api"))),
    path("i18n/", include("django.conf.urls.i18n")),
    *[page.pattern() for page in pages()],
]
handler404 = "fuseworks.core.error_pages.not_found"
handler403 = "fuseworks.core.error_pages.forbidden"
handler400 = "fuseworks.core.error_pages.bad_request"
handler500 = "fuseworks.core.error_pages.server_error"
