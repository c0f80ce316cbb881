"""The home page: what this installation has. Models, runs and recipes get pages of their own as their apps come."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

import fuseworks
from fuseworks.core.discovery import page, pages


@page("", title="Home")
@require_safe
def home(request: HttpRequest) -> HttpResponse:
    others = [p for p in pages() if p.name != "home"]
    return render(request, "core/home.html", {"pages": others, "version": fuseworks.__version__})
