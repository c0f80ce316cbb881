"""The log of a run: its newest events on the page, all of them as a text to download."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import STOP_POLLING, page
from fuseworks.core.storage import attached
from fuseworks.runs import selectors
from fuseworks.runs.models import Run, RunEvent
from fuseworks.runs.pages.run import log_context

NOTHING_NEW = 204


@page("runs/<uuid:run_id>/log/live/", title=_("Log of a run"), name="run_log_live")
@require_safe
@never_cache
def run_log_live(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """The newest events, when there are any after `?after=`."""
    found = selectors.run_visible(actor=actor_of(request), run_id=run_id)
    if found.is_terminal:
        return render(request, "runs/_log.html", log_context(found), status=STOP_POLLING)
    if request.GET.get("after") == str(selectors.last_position(run=found)):
        return HttpResponse(status=NOTHING_NEW)
    return render(request, "runs/_log.html", log_context(found))


@page("runs/<uuid:run_id>/log/", title=_("Log of a run"), name="run_log")
@require_safe
@never_cache
def run_log(request: HttpRequest, run_id: uuid.UUID) -> StreamingHttpResponse:
    found = selectors.run_visible(actor=actor_of(request), run_id=run_id)
    response = StreamingHttpResponse(_lines(found), content_type="text/plain; charset=utf-8")
    name = f"{found.version.model.slug}-v{found.version.number}-{str(found.pk)[:8]}-log.txt"
    return attached(response, name)


def _lines(found: Run) -> Iterator[str]:
    after, more = 0, True
    while more:
        part = selectors.events_after(run=found, after=after)
        yield "".join(_line(event) for event in part.events)
        after, more = part.next, part.more


def _line(event: RunEvent) -> str:
    counted = f" [{event.done}/{event.total}]" if event.done is not None and event.total is not None else ""
    text = f"{event.attempt} {event.at_s:9.3f} s  {event.kind:<13} {event.message}{counted}\n"
    detail = event.data.get("detail")
    return text + (f"{detail}\n" if isinstance(detail, str) and detail else "")
