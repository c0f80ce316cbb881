"""The health page: for people as HTML, for orchestrators as JSON (`Accept: application/json` or `?format=json`).

Status 503 when this site cannot serve pages, else 200: `degraded` when something else is wrong. It says nothing that a
stranger should not know.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

import fuseworks
from fuseworks.core.discovery import page
from fuseworks.core.health import examine


def wants_json(request: HttpRequest) -> bool:
    if "format" in request.GET:
        return request.GET["format"] == "json"
    preferred = request.get_preferred_type(["text/html", "application/json"])
    return preferred == "application/json"


@page("health/", title=_("Health"), public=True)
@require_safe
@never_cache
def health(request: HttpRequest) -> HttpResponse:
    checks = examine()
    serves = all(check.serves for check in checks)
    well = "ok" if all(check.ok for check in checks) else "degraded"
    document: dict[str, Any] = {
        "status": well if serves else "unhealthy",
        "version": fuseworks.__version__,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "checks": [asdict(check) for check in checks],
    }
    status = 200 if serves else 503
    if wants_json(request):
        return JsonResponse(document, status=status)
    return render(request, "core/health.html", document, status=status)
