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
    workers = selectors.fleet(actor=actor_of(request))
    manifests = [(one.worker, Manifest.of(one.manifest)) for one in workers]
    return render(request, "fleet/fleet.html", {**_live(workers), "manifests": manifests})


@page("fleet/live/", title=_("Fleet"), name="fleet_live")
@require_safe
@never_cache
def fleet_live(request: HttpRequest) -> HttpResponse:
    """The table and the queues, which change by themselves."""
    return render(request, "fleet/_live.html", _live(selectors.fleet(actor=actor_of(request), manifests=False)))


def _live(workers: list[selectors.WorkerView]) -> dict[str, object]:
    return {"workers": workers, "queues": selectors.queues(), "is_led": is_led()}
