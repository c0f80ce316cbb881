"""The audit log of a team, for its owners: what was asked for stands in the address; `?format=csv` is all of it."""

from __future__ import annotations

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from fuseworks.accounts import audit_log, selectors
from fuseworks.accounts.forms import AuditFilterForm
from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import page
from fuseworks.core.storage import attached

ROWS = 100


@page("teams/<slug:slug>/audit/", title=_("Audit log"), name="team_audit")
@require_safe
@never_cache
def audit(request: HttpRequest, slug: str) -> HttpResponse | StreamingHttpResponse:
    actor = actor_of(request)
    team = selectors.team(actor=actor, slug=slug)
    form = AuditFilterForm(request.GET)
    asked = form.cleaned_data if form.is_valid() else {}
    entries = audit_log.entries(actor=actor, team=team, **asked)
    if form.is_valid() and request.GET.get("format") == "csv":
        response = StreamingHttpResponse(audit_log.csv_lines(entries), content_type="text/csv; charset=utf-8")
        return attached(response, f"{team.slug}-audit.csv")
    return render(
        request,
        "accounts/audit.html",
        {
            "team": team,
            "form": form,
            "is_filtered": any(asked.values()),
            "page": Paginator(entries, ROWS).get_page(request.GET.get("page")),
        },
    )
