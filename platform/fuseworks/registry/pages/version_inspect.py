"""Inspects a version once more, after its inspection failed."""

from __future__ import annotations

import uuid

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import page
from fuseworks.registry import selectors
from fuseworks.runs.models import Purpose
from fuseworks.runs.services import run_create


@page("versions/<uuid:version_id>/inspect/", title=_("Inspect again"), name="version_inspect")
@require_POST
def version_inspect(request: HttpRequest, version_id: uuid.UUID) -> HttpResponse:
    actor = actor_of(request)
    version = selectors.version_get(actor=actor, version_id=version_id)
    run_create(actor=actor, version=version, purpose=Purpose.INSPECT)
    return redirect("version", version_id=version.pk)
