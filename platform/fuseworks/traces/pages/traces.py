"""All traces that the reader may see, newest first, with what the diagnosis of each says."""

from __future__ import annotations

from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from fuseworks.accounts.permissions import READ, actor_of, teams_where
from fuseworks.core.discovery import page
from fuseworks.registry.forms import SearchForm
from fuseworks.registry.selectors import team_of, teams_to_upload
from fuseworks.traces import selectors

ROWS = 25


@page("traces/", title=_("Traces"), name="traces", menu=15)
@require_safe
@never_cache
def traces(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    form = SearchForm(request.GET)
    asked: dict[str, Any] = form.cleaned_data if form.is_valid() else {"q": "", "team": "", "page": ""}
    found = selectors.search(selectors.traces_list(actor=actor), asked["q"])
    if asked["team"]:
        found = found.filter(model__team=team_of(actor=actor, slug=asked["team"]))
    return render(
        request,
        "traces/traces.html",
        {
            "page": Paginator(found, ROWS).get_page(asked["page"] or 1),
            "asked": asked,
            "is_filtered": bool(asked["q"] or asked["team"]),
            "teams": teams_where(actor, READ).order_by("name"),
            "may_upload": teams_to_upload(actor=actor).exists(),
        },
    )
