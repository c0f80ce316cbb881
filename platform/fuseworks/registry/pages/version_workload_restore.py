"""Makes an older revision of a workload the current one, as a new revision."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import page
from fuseworks.registry import selectors
from fuseworks.registry.services import workload_restore


@page("versions/<uuid:version_id>/workload/<int:number>/restore/", title=_("Restore"), name="version_workload_restore")
@require_POST
def version_workload_restore(request: HttpRequest, version_id: uuid.UUID, number: int) -> HttpResponse:
    actor = actor_of(request)
    version = selectors.version_get(actor=actor, version_id=version_id)
    saved = workload_restore(actor=actor, version=version, number=number)
    messages.success(
        request,
        gettext("Revision %(number)s is the current workload, as revision %(older)s was.")
        % {"number": saved.number, "older": number},
    )
    return redirect("version", version_id=version.pk)
