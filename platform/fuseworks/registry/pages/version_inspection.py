"""The state of a version's inspection, for the version page to ask while it waits: the page loads anew at its end."""

from __future__ import annotations

import uuid

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from fuseworks.accounts.permissions import RUN, actor_of, may
from fuseworks.core.discovery import page
from fuseworks.registry import selectors
from fuseworks.registry.pages.version import inspection_context


@page("versions/<uuid:version_id>/inspection/", title=_("Inspection"), name="version_inspection")
@require_safe
@never_cache
def version_inspection(request: HttpRequest, version_id: uuid.UUID) -> HttpResponse:
    actor = actor_of(request)
    version = selectors.version_get(actor=actor, version_id=version_id)
    context = {"version": version, **inspection_context(version), "may_run": may(actor, version.model.team, RUN)}
    response = render(request, "registry/_inspection.html", context)
    run = context["inspect_run"]
    if version.inspection is not None or run is None or run.is_terminal:
        response.headers["HX-Refresh"] = "true"
    return response
