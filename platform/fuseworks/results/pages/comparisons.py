"""Any two or more runs beside each other: `/comparisons/?runs=ID,ID`. With fewer than two it is a picker.

Runs under unequal conditions are refused, with what differs in a table. POST measures two versions side by side.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from fuseworks.accounts.permissions import RUN, Actor, actor_of, may
from fuseworks.core.discovery import page
from fuseworks.core.errors import PlatformError
from fuseworks.core.lookup import get_or_404
from fuseworks.registry.models import Kind, Model
from fuseworks.results import selectors
from fuseworks.results.comparing import beside
from fuseworks.results.services import measure_side_by_side, not_measurable
from fuseworks.runs.models import Run

PAGE_SIZE = 30


@page("comparisons/", title=gettext_lazy("Compare runs"), name="comparisons")
@require_http_methods(["GET", "HEAD", "POST"])
def comparisons(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    if request.method == "POST":
        return _measure(request, actor)
    chosen = selectors.run_ids(request.GET.getlist("runs"))
    if len(chosen) < 2:
        return _picker(request, actor, chosen)
    runs = selectors.runs_compared(actor=actor, run_ids=chosen)
    return render(request, "results/comparisons.html", {"beside": beside(runs), **_measuring(actor, runs)})


def _picker(request: HttpRequest, actor: Actor, chosen: list[uuid.UUID]) -> HttpResponse:
    wanted = request.GET.get("model", "")
    models = (
        Model.objects.visible_to(actor).filter(kind=Kind.MODEL).select_related("team").order_by("team__name", "name")
    )
    model = get_or_404(models, what="model", pk=wanted) if wanted else None
    first = selectors.run_visible(actor=actor, run_id=chosen[0]) if chosen else None
    shown = Paginator(selectors.runs_to_choose(actor=actor, model=model), PAGE_SIZE).get_page(request.GET.get("page"))
    return render(
        request,
        "results/picker.html",
        {"models": models, "model": model, "first": first, "page": shown, "most": selectors.MOST_COMPARED},
    )


def _measuring(actor: Actor, runs: list[Run]) -> dict[str, Any]:
    """Whether the button is offered, and why not."""
    if len(runs) != 2:
        return {"measurable": False, "not_measurable": ""}
    first, second = runs
    reason = not_measurable(first, second)
    if reason is None and not may(actor, second.team, RUN):
        reason = _("your role in %(team)s starts no runs") % {"team": second.team.name}
    return {"measurable": reason is None, "not_measurable": reason or ""}


def _measure(request: HttpRequest, actor: Actor) -> HttpResponse:
    chosen = selectors.run_ids(request.POST.getlist("runs"))
    if len(chosen) != 2:
        raise PlatformError("results:usage:two-runs", count=len(chosen), most=2)
    first, second = selectors.runs_compared(actor=actor, run_ids=chosen)
    run = measure_side_by_side(actor=actor, first=first, second=second)
    messages.success(request, _("The two versions are being measured side by side."))
    return redirect("run", run_id=run.pk)
