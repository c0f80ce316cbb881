"""The diagnosis that a run left: timeline, findings, comparison, ranks, facts; and its exports (`?format=json`)."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import page
from fuseworks.core.errors import PlatformError
from fuseworks.core.storage import attached
from fuseworks.results.snippets import filename
from fuseworks.runs.models import Run
from fuseworks.runs.selectors import against_visible
from fuseworks.traces import selectors
from fuseworks.traces.exports import FORMATS
from fuseworks.traces.reading import compared, facts, findings
from fuseworks.traces.reading.document import diagnosis_of, diagnosis_or_404
from fuseworks.traces.reading.drawing import picture
from fuseworks.traces.reading.parts import KINDS
from optimizer.result import Diagnosis


@page("runs/<uuid:run_id>/diagnosis/", title=_("Diagnosis"), name="run_diagnosis")
@require_safe
def run_diagnosis(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    actor = actor_of(request)
    run = selectors.diagnosis_run(actor=actor, run_id=run_id)
    wanted = request.GET.get("format")
    if wanted is not None:
        return _exported(run, wanted)
    found = diagnosis_of(run)
    if found is None:
        return render(request, "traces/no_diagnosis.html", {"run": run, "problem": run.problem})
    against = against_visible(actor=actor, run=run)
    context = {"run": run, "trace": run.version, "against": against, **_page(request, found)}
    return render(request, "traces/diagnosis.html", context)


def _exported(run: Run, wanted: str) -> HttpResponse:
    """Raises PlatformError for a format that is not there, and where there is no diagnosis."""
    form = FORMATS.get(wanted)
    if form is None:
        raise PlatformError("core:usage:not-found", what="format")
    answer = HttpResponse(form.written(diagnosis_or_404(run)), content_type=f"{form.content_type}; charset=utf-8")
    return attached(answer, filename(run, f"diagnosis-{str(run.pk)[:8]}.{form.suffix}"))


def _page(request: HttpRequest, found: Diagnosis) -> dict[str, Any]:
    asked = findings.Asked.of(request.GET, found)
    rows = findings.rows(found)
    shown = found.ranks[asked.rank or 0] if found.ranks else None
    return {
        "diagnosis": found,
        "asked": asked,
        "rows": findings.fitting(rows, asked, found),
        "all_rows": len(rows),
        "severities": [(name, words) for name, (_colour, words) in findings.SEVERITIES.items()],
        "kinds": list(KINDS.items()),
        "picture": picture(shown) if shown is not None else None,
        "tables": compared.tables(found),
        "groups": facts.groups(found.facts),
        "exports": FORMATS,
    }
