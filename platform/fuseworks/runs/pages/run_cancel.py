"""The button that cancels a run."""

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
from fuseworks.runs.selectors import run_visible
from fuseworks.runs.services import run_cancel as cancel


@page("runs/<uuid:run_id>/cancel/", title=_("Cancel"), name="run_cancel")
@require_POST
def run_cancel(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    actor = actor_of(request)
    run = cancel(actor=actor, run=run_visible(actor=actor, run_id=run_id))
    if run.is_terminal:  # else the live part of the page says what is waited for, and stops saying so
        messages.success(request, gettext("The run was cancelled."))
    return redirect("run", run_id=run_id)
