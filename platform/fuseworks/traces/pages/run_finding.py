"""One finding of a diagnosis under an address that stays: evidence, where in the timeline it lies, and the remedy."""

from __future__ import annotations

import uuid

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import page
from fuseworks.traces import selectors
from fuseworks.traces.reading.document import diagnosis_or_404, finding_or_404
from fuseworks.traces.reading.drawing import picture
from fuseworks.traces.reading.findings import evidence, rows
from fuseworks.traces.reading.parts import parts_of


@page("runs/<uuid:run_id>/diagnosis/<slug:rule>/", title=_("Finding"), name="run_finding")
@require_safe
def run_finding(request: HttpRequest, run_id: uuid.UUID, rule: str) -> HttpResponse:
    run = selectors.diagnosis_run(actor=actor_of(request), run_id=run_id)
    diagnosis = diagnosis_or_404(run)
    place, finding = finding_or_404(diagnosis, rule)
    row = rows(diagnosis)[place - 1]
    rank = row.rank or (diagnosis.ranks[0] if diagnosis.ranks else None)
    context = {
        "run": run,
        "trace": run.version,
        "diagnosis": diagnosis,
        "row": row,
        "finding": finding,
        "evidence": evidence(finding),
        "takes": sorted(finding.takes_ms.items(), key=lambda one: -one[1]),
        "picture": picture(rank, parts_of(finding.takes_ms)) if rank is not None else None,
        "before": diagnosis.findings[place - 2] if place > 1 else None,
        "after": diagnosis.findings[place] if place < len(diagnosis.findings) else None,
    }
    return render(request, "traces/finding.html", context)
