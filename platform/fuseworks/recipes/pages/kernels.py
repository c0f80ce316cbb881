"""The kernel library in the catalog: all kernels, and one with all that is known of it without a device."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import page
from fuseworks.core.errors import PlatformError
from fuseworks.fleet.kernels import library
from fuseworks.recipes.kernel_users import recipes_with


@page("catalog/kernels/", title=_("Kernels"), name="kernels")
@require_safe
def kernels(request: HttpRequest) -> HttpResponse:
    wanted = request.GET.get("q", "").strip().lower()[:200]
    found = library()
    shown = [one for one in found if wanted in f"{one.name} {one.summary} {' '.join(one.patterns)}".lower()]
    return render(request, "recipes/kernels.html", {"kernels": shown, "known": len(found), "wanted": wanted})


@page("catalog/kernels/<slug:name>/", title=_("Kernel"), name="kernel")
@require_safe
def kernel(request: HttpRequest, name: str) -> HttpResponse:
    found = next((one for one in library() if one.name == name), None)
    if found is None:
        raise PlatformError("core:usage:not-found", what="kernel")
    users = recipes_with(actor=actor_of(request), kernel=name)
    return render(request, "recipes/kernel.html", {"kernel": found, "users": users})
