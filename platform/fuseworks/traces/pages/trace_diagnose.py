"""Diagnoses a trace once more, alone or against another one."""

from __future__ import annotations

import uuid

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import page
from fuseworks.core.errors import PlatformError
from fuseworks.core.telling import message_of
from fuseworks.runs.models import Purpose
from fuseworks.runs.services import run_create
from fuseworks.traces import selectors
from fuseworks.traces.forms import AgainstForm
from fuseworks.traces.pages.trace import trace_page


@page("traces/<uuid:version_id>/diagnose/", title=_("Diagnose"), name="trace_diagnose")
@require_POST
def trace_diagnose(request: HttpRequest, version_id: uuid.UUID) -> HttpResponse:
    actor = actor_of(request)
    trace = selectors.trace_get(actor=actor, version_id=version_id)
    form = AgainstForm(request.POST, trace=trace)
    against = None
    if "against" in request.POST:
        if not form.is_valid():
            return trace_page(request, actor, trace, against_form=form)
        against = form.cleaned_data["against"]
    try:
        run = run_create(actor=actor, version=trace, purpose=Purpose.DIAGNOSE, against=against)
    except PlatformError as error:
        if error.id != "runs:usage:field":
            raise
        form.add_error(None, message_of(error))
        return trace_page(request, actor, trace, against_form=form)
    return redirect("run", run_id=run.pk)
