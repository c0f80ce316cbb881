"""What rules predicted and what came of it, over the runs that the reader may see: by rule and remedy, and one of them
with its runs."""

from __future__ import annotations

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import page
from fuseworks.results.gains import MOST_READ, GainQuery, gains_visible
from fuseworks.results.reading import gains

ROWS = 25


@page("predicted-gains/", title=_("Predicted gains"), name="predicted_gains")
@require_safe
def predicted_gains(request: HttpRequest) -> HttpResponse:
    asked = {name: request.GET.get(name, "").strip()[:300] for name in ("rule", "remedy", "target")}
    found = gains_visible(actor=actor_of(request), query=GainQuery(**asked))
    rows = list(found[:MOST_READ])
    chosen = asked["rule"] and asked["remedy"]
    return render(
        request,
        "results/predicted_gains.html",
        {
            "asked": asked,
            "is_filtered": any(asked.values()),
            "chosen": chosen,
            "all": gains.track(rows),
            "tracks": gains.tracks(rows),
            "scatter": gains.scatter(rows),
            "evidence": gains.by_evidence(rows),
            "page": Paginator(rows, ROWS).get_page(request.GET.get("page")) if chosen else None,
        },
    )
