"""The history of a model's gates, or of all that the reader may see (`?model=ID`)."""

from __future__ import annotations

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import page
from fuseworks.core.lookup import get_or_404
from fuseworks.gates import selectors
from fuseworks.gates.rules import exit_code
from fuseworks.registry.models import Kind, Model

PAGE_SIZE = 50


@page("gates/", title=_("Gates"), name="gates")
@require_safe
def gates(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    models = (
        Model.objects.visible_to(actor).filter(kind=Kind.MODEL).select_related("team").order_by("team__name", "name")
    )
    wanted = request.GET.get("model", "")
    model = get_or_404(models, what="model", pk=wanted) if wanted else None
    checks = selectors.checks(actor=actor)
    if model is not None:
        checks = checks.filter(run__version__model=model)
    shown = Paginator(checks, PAGE_SIZE).get_page(request.GET.get("page"))
    rows = [(check, exit_code(check)) for check in shown]
    context = {"rows": rows, "page": shown, "model": model, "models": models, "root": request.build_absolute_uri("/")}
    return render(request, "gates/gates.html", context)
