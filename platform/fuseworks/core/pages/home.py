"""The dashboard: what is running, what came out last, the reader's models, and recipes worth trying."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import page
from fuseworks.core.selectors import dashboard


@page("", title=_("Dashboard"), name="home", menu=0)
@require_safe
@never_cache
def home(request: HttpRequest) -> HttpResponse:
    return render(request, "core/home.html", {"dashboard": dashboard(actor=actor_of(request))})
