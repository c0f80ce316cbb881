"""The runs of one's teams, newest first. What is asked for stands in the address."""

from __future__ import annotations

from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from fuseworks.accounts.permissions import READ, actor_of, teams_where
from fuseworks.core.badges import PURPOSES, STATUSES, VERDICTS
from fuseworks.core.discovery import page
from fuseworks.runs.filters import RunFilter
from fuseworks.runs.models import Purpose, Status
from fuseworks.runs.selectors import runs_visible
from optimizer.result import Verdict

ROWS = 25


@page("runs/", title=_("Runs"), name="runs", menu=30)
@require_safe
@never_cache
def runs(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    found = RunFilter(request.GET, queryset=runs_visible(actor=actor))
    rows = found.qs if found.is_valid() else found.queryset.none()
    return render(
        request,
        "runs/runs.html",
        {
            "page": Paginator(rows, ROWS).get_page(request.GET.get("page")),
            "errors": [f"{name}: {text}" for name, texts in found.errors.items() for text in texts],
            "is_filtered": any(request.GET.get(name) for name in found.filters),
            "choices": _choices(request),
            "teams": teams_where(actor, READ).order_by("name"),
            "kept": {name: request.GET[name] for name in ("model", "version") if request.GET.get(name)},
        },
    )


def _choices(request: HttpRequest) -> list[dict[str, Any]]:
    """The selects of the form: each with its options as (value, text, whether it is chosen)."""
    offered = [
        ("status", _("Status"), [(s.value, STATUSES[s.value][1]) for s in Status]),
        ("purpose", _("Purpose"), [(p.value, PURPOSES[p.value]) for p in Purpose]),
        ("verdict", _("Verdict"), [(v.value, VERDICTS[v.value][1]) for v in Verdict]),
    ]
    return [
        {
            "name": name,
            "label": label,
            "options": [(value, text, value in request.GET.getlist(name)) for value, text in options],
        }
        for name, label, options in offered
    ]
