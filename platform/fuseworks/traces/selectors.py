"""Reads traces and their diagnoses. What the reader may not see does not exist for him."""

from __future__ import annotations

import uuid
from typing import Any

from django.db.models import OuterRef, Q, QuerySet, Subquery

from fuseworks.accounts.permissions import Actor
from fuseworks.core.errors import PlatformError
from fuseworks.core.lookup import get_or_404
from fuseworks.registry.models import Format, ModelVersion
from fuseworks.results.selectors import run_visible
from fuseworks.runs.models import Purpose, Run
from fuseworks.runs.selectors import runs_visible


def traces_list(*, actor: Actor) -> QuerySet[Any]:
    """Newest first, with `run_id`, `run_status` and `run_summary` of each one's last diagnosis by itself."""
    last = Run.objects.filter(version=OuterRef("pk"), purpose=Purpose.DIAGNOSE, against=None).order_by("-created_at")
    return (
        ModelVersion.objects.visible_to(actor)
        .filter(format=Format.TRACE)
        .select_related("model__team__business_unit", "uploaded_by")
        .annotate(
            run_id=Subquery(last.values("pk")[:1]),
            run_status=Subquery(last.values("status")[:1]),
            run_summary=Subquery(last.values("summary")[:1]),
        )
        .order_by("-created_at", "pk")
    )


def search(traces: QuerySet[Any], text: str) -> QuerySet[Any]:
    """Each word is somewhere in the name of the job, of the file or of the team."""
    for word in text.split():
        traces = traces.filter(
            Q(model__name__icontains=word) | Q(filename__icontains=word) | Q(model__team__name__icontains=word)
        )
    return traces


def trace_get(*, actor: Actor, version_id: uuid.UUID) -> Any:
    """Raises PlatformError (404), also for a version that is no trace."""
    return get_or_404(traces_list(actor=actor).select_related("deleted_by"), what="trace", pk=version_id)


def diagnoses_of(*, actor: Actor, trace: ModelVersion) -> QuerySet[Run]:
    """Newest first: by itself, and against other traces."""
    return runs_visible(actor=actor).filter(version=trace, purpose=Purpose.DIAGNOSE).select_related("against__model")


def diagnosis_run(*, actor: Actor, run_id: uuid.UUID) -> Run:
    """With its result where there is one. Raises PlatformError (404), also for a run of another purpose."""
    run = run_visible(actor=actor, run_id=run_id)
    if run.purpose != Purpose.DIAGNOSE:
        raise PlatformError("core:usage:not-found", what="run")
    return run
