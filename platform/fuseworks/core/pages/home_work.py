"""The live part of the dashboard: runs at work and the last results, asked for by htmx while runs are at work."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import page
from fuseworks.core.selectors import work


@page("dashboard/runs/", title=_("Runs at work"))
@require_safe
@never_cache
def home_work(request: HttpRequest) -> HttpResponse:
    return render(request, "core/_work.html", {"work": work(actor=actor_of(request))})
