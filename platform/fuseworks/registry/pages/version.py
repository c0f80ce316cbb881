"""One version: what is in it, how it is called, and what can be done with it. The forms on it post to pages of their
own, which show this one again when something is wrong."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from fuseworks.accounts.permissions import DELETE, RUN, Actor, actor_of, may
from fuseworks.core.discovery import page
from fuseworks.core.lookup import get_or_404
from fuseworks.core.numbers import whole_number
from fuseworks.recipes.selectors import matches
from fuseworks.registry import selectors, workload_text
from fuseworks.registry.forms import CompareForm, PredictForm, RunForm
from fuseworks.registry.models import Format, ModelVersion
from fuseworks.registry.workload_form import KINDS, MODES, WorkloadForm

SHOWN_RUNS = 10
SHOWN_MATCHES = 10
SHOWN_OPERATIONS = 40


@page("versions/<uuid:version_id>/", title=_("Version"), name="version")
@require_safe
def version(request: HttpRequest, version_id: uuid.UUID) -> HttpResponse:
    actor = actor_of(request)
    found = selectors.version_get(actor=actor, version_id=version_id)
    if found.format == Format.TRACE:  # what links to a run's version need not know what it is
        return redirect("trace", version_id=found.pk)
    return version_page(request, actor, found)


def version_page(request: HttpRequest, actor: Actor, version: ModelVersion, **bound: Any) -> HttpResponse:
    """`bound`: the form that was refused, under the name by which the template knows it. Status 422 then."""
    is_kept = version.deleted_at is None
    matching = matches(actor=actor, version=version) if is_kept else []
    context = {
        "version": version,
        "model": version.model,
        **inspection_context(version),
        **workload_context(request, version),
        "runs": selectors.runs_of(actor=actor, model=version.model).filter(version=version)[:SHOWN_RUNS],
        "run_form": RunForm(prefix="run"),
        "compare_form": CompareForm(version=version),
        "predict_form": PredictForm(prefix="predict"),
        "matches": [match for match in matching if match.reason is None][:SHOWN_MATCHES],
        "may_run": is_kept and may(actor, version.model.team, RUN),
        "may_delete": is_kept and may(actor, version.model.team, DELETE),
        **bound,
    }
    return render(request, "registry/version.html", context, status=422 if bound else 200)


def inspection_context(version: ModelVersion) -> dict[str, Any]:
    inspection = version.inspection or {}
    operations = sorted(inspection.get("operations", {}).items(), key=lambda item: (-item[1], item[0]))
    return {
        "inspection": version.inspection,
        "operations": operations[:SHOWN_OPERATIONS],
        "operations_left": len(operations) - SHOWN_OPERATIONS,
        "inspect_run": selectors.inspect_run(version=version),
    }


def workload_context(request: HttpRequest, version: ModelVersion) -> dict[str, Any]:
    """The current revision, or the one that the address asks for, in both of its forms."""
    revisions = selectors.workloads_of(version=version)
    asked = request.GET.get("workload", "")
    shown = get_or_404(revisions, what="revision", number=whole_number(asked)) if asked else revisions.first()
    document = shown.document if shown is not None else None
    return {
        "revisions": revisions,
        "current": revisions.first(),
        "shown": shown,
        "workload_form": WorkloadForm.filled(document) if document is not None else None,
        "workload_text": workload_text.dump(document) if document is not None else "",
        "kinds": [(name, label, meaning) for name, (_count, label, meaning) in KINDS.items()],
        "modes": MODES,
    }
