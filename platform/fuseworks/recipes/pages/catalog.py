"""The catalog: search and facets, all in the address, so that a search can be sent to a colleague."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from fuseworks.accounts.models import BusinessUnit
from fuseworks.accounts.permissions import SAVE_RECIPE, actor_of, teams_where
from fuseworks.core.discovery import page
from fuseworks.recipes import selectors
from fuseworks.recipes.query import ANY, query_of

PER_PAGE = 24
PARAMETERS = ("q", "target", "mode", "pass", "unit", "backend", "state", "min_gain", "sort")
MIN_GAINS = ("1.05", "1.2", "1.5", "2")


@page("catalog/", title=_("Catalog"), menu=40)
@require_safe
def catalog(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    query = query_of(request.GET)
    shown = Paginator(selectors.catalog(actor=actor, query=query), PER_PAGE).get_page(request.GET.get("page"))
    given = {name: request.GET[name] for name in PARAMETERS if request.GET.get(name)}
    return render(
        request,
        "recipes/catalog.html",
        {
            "page": shown,
            "query": query,
            "given": given,
            "facets": _facets(actor, query, given),
            "min_gains": [(gain, _address(given, "min_gain", gain)) for gain in MIN_GAINS],
            "without_gain": _address(given, "min_gain", ""),
            "may_save": teams_where(actor, SAVE_RECIPE).exists(),
        },
    )


def _facets(actor: Any, query: Any, given: dict[str, str]) -> list[dict[str, Any]]:
    """Each facet with its values, their counts and the address that choosing (or leaving) one leads to."""
    titles = {
        "target": gettext("Target"),
        "mode": gettext("Mode"),
        "pass": gettext("Pass"),
        "unit": gettext("Business unit"),
        "backend": gettext("Backend"),
        "state": gettext("State"),
    }
    units = dict(BusinessUnit.objects.values_list("slug", "name"))
    out = []
    for facet, values in selectors.facets(actor=actor, query=query).items():
        chosen = given.get(facet, "published" if facet == "state" else "")
        rows = []
        for value, count in values:
            leads_to = (ANY if facet == "state" else "") if value == chosen else value
            label = units.get(value, value) if facet == "unit" else value
            rows.append(
                {"label": label, "count": count, "chosen": value == chosen, "address": _address(given, facet, leads_to)}
            )
        out.append({"name": facet, "title": titles[facet], "rows": rows})
    return out


def _address(given: dict[str, str], name: str, value: str) -> str:
    changed = {**given, name: value} if value else {k: v for k, v in given.items() if k != name}
    return f"?{urlencode(changed)}" if changed else "?"
