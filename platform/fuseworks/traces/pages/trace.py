"""One trace: its file, what its diagnoses say, and what it can be compared with."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from fuseworks.accounts.permissions import DELETE, RUN, UPLOAD, Actor, actor_of, may
from fuseworks.core.discovery import page
from fuseworks.registry.models import ModelVersion
from fuseworks.runs.pages.run import live_context
from fuseworks.traces import selectors
from fuseworks.traces.forms import AgainstForm

SHOWN_RUNS = 15


@page("traces/<uuid:version_id>/", title=_("Trace"), name="trace")
@require_safe
@never_cache
def trace(request: HttpRequest, version_id: uuid.UUID) -> HttpResponse:
    actor = actor_of(request)
    return trace_page(request, actor, selectors.trace_get(actor=actor, version_id=version_id))


def trace_page(request: HttpRequest, actor: Actor, trace: ModelVersion, **bound: Any) -> HttpResponse:
    """`bound`: the form that was refused, under the name by which the template knows it. Status 422 then."""
    is_kept, team = trace.deleted_at is None, trace.model.team
    runs = list(selectors.diagnoses_of(actor=actor, trace=trace)[:SHOWN_RUNS])
    alone = next((run for run in runs if run.against_id is None), None)
    context = {
        **(live_context(actor, alone) if alone is not None else {}),
        "trace": trace,
        "diagnosis_run": alone,
        "runs": runs,
        "against_form": AgainstForm(trace=trace),
        "may_start": is_kept and may(actor, team, RUN),
        "may_upload": may(actor, team, UPLOAD),
        "may_delete": is_kept and may(actor, team, DELETE),
        **bound,
    }
    return render(request, "traces/trace.html", context, status=422 if bound else 200)
