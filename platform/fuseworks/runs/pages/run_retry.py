"""The button that runs once more what is over."""

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
from fuseworks.runs.services import run_retry as retry


@page("runs/<uuid:run_id>/retry/", title=_("Run again"), name="run_retry")
@require_POST
def run_retry(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    actor = actor_of(request)
    run = retry(actor=actor, run=run_visible(actor=actor, run_id=run_id))
    messages.success(request, gettext("The same run once more: it waits in the queue."))
    return redirect("run", run_id=run.pk)
