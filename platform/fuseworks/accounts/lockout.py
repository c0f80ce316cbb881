"""The page for whoever failed to sign in too often. django-axes counts by address of the account and of the caller."""

from __future__ import annotations

from typing import Any

from axes.helpers import get_cool_off
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

STATUS = 429


def locked_out(request: HttpRequest, original: HttpResponse | None, credentials: dict[str, Any] | None) -> HttpResponse:
    """The same whether the account exists or not. django-axes finds it by `AXES_LOCKOUT_CALLABLE`."""
    wait = get_cool_off(request)
    minutes = max(1, round(wait.total_seconds() / 60)) if wait is not None else None
    response = render(request, "accounts/locked_out.html", {"minutes": minutes}, status=STATUS)
    if minutes is not None:
        response.headers["Retry-After"] = str(minutes * 60)
    response.headers["Cache-Control"] = "no-store"
    return response
