"""One run: what it is for, where it stands, what it found so far, its log, and what came of it. Live while it works."""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from fuseworks.accounts.permissions import RUN, Actor, actor_of, may
from fuseworks.core.discovery import STOP_POLLING, page
from fuseworks.fleet.selectors import queue_place
from fuseworks.recipes.selectors import applied_visible
from fuseworks.results import snippets
from fuseworks.results.reading import predicted
from fuseworks.runs import selectors
from fuseworks.runs.models import Run
from fuseworks.runs.services.expiring import has_expired

PACKAGE = "package.zip"


@page("runs/<uuid:run_id>/", title=_("Run"), name="run")
@require_safe
@never_cache
def run(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    actor = actor_of(request)
    found = selectors.run_visible(actor=actor, run_id=run_id)
    context = {**live_context(actor, found), **log_context(found), **_by_other_means(request, actor, found)}
    return render(request, "runs/run.html", context)


@page("runs/<uuid:run_id>/live/", title=_("Run"), name="run_live")
@require_safe
@never_cache
def run_live(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """The part of the page that changes while the run works."""
    actor = actor_of(request)
    found = selectors.run_visible(actor=actor, run_id=run_id)
    status = STOP_POLLING if found.is_terminal else 200
    return render(request, "runs/_live.html", live_context(actor, found), status=status)


def live_context(actor: Actor, found: Run) -> dict[str, Any]:
    attempt = selectors.current_attempt(run=found)
    attempts = selectors.last_attempts(run=found)
    measurements = selectors.measurements(run=found)
    return {
        "run": found,
        "attempt": attempt,
        "attempts": attempts if len(attempts) > 1 else [],
        "elapsed_s": selectors.elapsed_s(run=found, attempt=attempt),
        "queue": queue_place(run=found),
        "stages": selectors.stages(run=found),
        "measurements": measurements,
        "predicted": predicted.of_run(found),
        "best": measurements[0] if measurements and not found.is_terminal else None,
        "artifacts": list(selectors.artifacts(run=found)),
        "against": selectors.against_visible(actor=actor, run=found),
        "applied": applied_visible(actor=actor, run=found),
        "may_run": may(actor, found.team, RUN),
        "may_repeat": found.is_terminal and selectors.has_its_files(run=found),
    }


def log_context(found: Run) -> dict[str, Any]:
    events = selectors.last_events(run=found)
    return {
        "run": found,
        "events": events,
        "next": selectors.position(events[-1]) if events else 0,
        "is_cut": len(events) == selectors.SHOWN_EVENTS,
        "days_kept": settings.RUN_FILES_DAYS if has_expired(run=found, now=timezone.now()) else 0,
        "has_attempts": len({event.attempt for event in events}) > 1,
    }


def _by_other_means(request: HttpRequest, actor: Actor, found: Run) -> dict[str, Any]:
    root = request.build_absolute_uri("/")
    against = selectors.against_visible(actor=actor, run=found)
    applied = applied_visible(actor=actor, run=found)
    has_package = selectors.artifacts(run=found).filter(name=PACKAGE).exists()
    address = f"{root}api/v1/runs/{found.pk}/"
    asked = snippets.as_api(found, root, has_package=has_package, against=against, applied=applied)
    own = [
        snippets.Snippet(gettext("This run"), f"curl -H {snippets.TOKEN} \\\n  {address}"),
        snippets.Snippet(
            gettext("Its events, as they come"), f"curl -H {snippets.TOKEN} \\\n  '{address}events/?after=0&wait=20'"
        ),
    ]
    return {
        "snippet_groups": [
            (gettext("As API"), [*own, *asked]),
            (
                gettext("As command line"),
                snippets.as_command(found, root, has_package=has_package, against=against, applied=applied),
            ),
        ]
    }
