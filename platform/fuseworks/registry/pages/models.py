"""All models that the reader may see: search, by team, with the newest version and the last verdict of each."""

from __future__ import annotations

from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from fuseworks.accounts.permissions import READ, actor_of, teams_where
from fuseworks.core.discovery import page
from fuseworks.registry import selectors
from fuseworks.registry.forms import SearchForm

ROWS = 25


@page("models/", title=_("Models"), name="models", menu=10)
@require_safe
def models(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    form = SearchForm(request.GET)
    asked: dict[str, Any] = form.cleaned_data if form.is_valid() else {"q": "", "team": "", "page": ""}
    found = selectors.search(selectors.models_list(actor=actor), asked["q"])
    if asked["team"]:
        found = found.filter(team=selectors.team_of(actor=actor, slug=asked["team"]))
    return render(
        request,
        "registry/models.html",
        {
            "page": Paginator(found, ROWS).get_page(asked["page"] or 1),
            "asked": asked,
            "is_filtered": bool(asked["q"] or asked["team"]),
            "teams": teams_where(actor, READ).order_by("name"),
            "may_upload": selectors.teams_to_upload(actor=actor).exists(),
        },
    )
