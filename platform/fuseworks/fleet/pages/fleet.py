"""The fleet: who works for this site, on what, how noisy each worker measures, and what waits for whom."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import page
from fuseworks.fleet import selectors
from fuseworks.fleet.leadership import is_led
from fuseworks.fleet.manifests import Manifest


@page("fleet/", title=_("Fleet"), name="fleet", menu=60)
@require_safe
@never_cache
def fleet(request: HttpRequest) -> HttpResponse:
    return render(request, "fleet/fleet.html", _context(request))


@page("fleet/live/", title=_("Fleet"), name="fleet_live")
@require_safe
@never_cache
def fleet_live(request: HttpRequest) -> HttpResponse:
    """The table and the queues, which change by themselves."""
    return render(request, "fleet/_live.html", _context(request))


def _context(request: HttpRequest) -> dict[str, object]:
    workers = selectors.fleet(actor=actor_of(request))
    return {
        "workers": workers,
        "manifests": [(one.worker, Manifest.of(one.manifest)) for one in workers],
        "queues": selectors.queues(),
        "is_led": is_led(),
    }
