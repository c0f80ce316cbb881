"""The API's reference in the browser: Swagger UI out of the sidecar package's static files, so nothing of a CDN."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from fuseworks.core.discovery import page


@page("docs/api/", title=_("API reference"), public=True)
@require_safe
def apidocs(request: HttpRequest) -> HttpResponse:
    return render(request, "core/apidocs.html")
