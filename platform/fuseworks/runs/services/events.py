"""Events of a coordinator, as its worker posts them: numbered within the attempt, kept under limits.

A doubled post changes nothing. Past the limits events move the run's progress and are not kept.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from pydantic import ValidationError

from fuseworks.core.errors import PlatformError
from fuseworks.runs import scrub
from fuseworks.runs.models import Attempt, Run, RunEvent
from fuseworks.runs.services import ending
from optimizer.result import Event, Stage

MAX_EVENTS = 10_000  # of one attempt
MAX_EVENT_BYTES = 16 << 20  # of one attempt
MAX_MESSAGE = 4_000
MAX_CANDIDATE = 300
MAX_DATA_BYTES = 64 << 10
FULL = "Further events of this attempt are not kept: there are too many."
STAGES = frozenset(stage.value for stage in Stage)
LARGEST_INTEGER = 2**31 - 1


def events_append(*, attempt: Attempt, first: int, events: Sequence[Any]) -> int:
    """Keeps events numbered `first`, `first + 1`, ... and returns the number that the next one should have.

    Raises `runs:usage:event` naming the first that is not valid (none is kept), `runs:usage:stale`.
    """
    parsed = [_parsed(document, number) for number, document in enumerate(events, first)]
    with transaction.atomic():
        run = ending.working(attempt)
        fresh = [arrived for arrived in parsed if arrived.row.number >= attempt.next_event]
        if fresh:
            _keep(run, attempt, [arrived.row for arrived in fresh])
            _show(run, fresh)
        attempt.next_event = max(attempt.next_event, first + len(parsed))
        attempt.save(update_fields=["next_event", "event_bytes", "updated_at"])
    return attempt.next_event


@dataclass(frozen=True)
class Arrived:
    """An event, and the budget that it names: only the run's progress keeps that."""

    row: RunEvent
    budget_s: float


def _parsed(document: Any, number: int) -> Arrived:
    try:
        event = Event.model_validate(scrub.storable(document))
    except ValidationError as error:
        found = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in found["loc"]) or "the event"
        raise PlatformError("runs:usage:event", number=number, text=f"{place}: {found['msg']}"[:400]) from error
    except scrub.TooDeep as error:
        raise PlatformError("runs:usage:event", number=number, text=str(error)) from error
    row = RunEvent(
        number=number,
        kind=event.kind,
        at_s=event.at_s,
        message=event.message[:MAX_MESSAGE],
        candidate=(event.candidate or "")[:MAX_CANDIDATE],
        done=_integer(event.done),
        total=_integer(event.total),
        data=_bounded(event.data),
    )
    return Arrived(row, event.budget_s)


def _integer(value: int | None) -> int | None:
    return value if value is not None and 0 <= value <= LARGEST_INTEGER else None


def _bounded(data: dict[str, Any]) -> dict[str, Any]:
    size = len(json.dumps(data))
    return data if size <= MAX_DATA_BYTES else {"left_out_bytes": size}


def _size(row: RunEvent) -> int:
    return len(row.message) + len(row.candidate) + len(json.dumps(row.data)) + 50


def _keep(run: Run, attempt: Attempt, rows: list[RunEvent]) -> None:
    kept = []
    for row in rows:
        if attempt.event_bytes >= MAX_EVENT_BYTES:
            break
        size = _size(row)
        if row.number >= MAX_EVENTS or attempt.event_bytes + size > MAX_EVENT_BYTES:
            row.kind, row.message, row.candidate, row.data = "log", FULL, "", {}
            row.number = min(row.number, MAX_EVENTS)
            size = MAX_EVENT_BYTES
        row.run, row.attempt = run, attempt.number
        attempt.event_bytes += size
        kept.append(row)
    RunEvent.objects.bulk_create(kept)


def _show(run: Run, fresh: list[Arrived]) -> None:
    """The run's progress is what its last event of a stage said; the best measurement so far stays with it."""
    staged = [arrived for arrived in fresh if arrived.row.kind in STAGES]
    if not staged:
        return
    last, budget_s = staged[-1].row, staged[-1].budget_s
    progress: dict[str, Any] = {
        "message": last.message[:500],
        "done": last.done,
        "total": last.total,
        "at_s": last.at_s,
        "budget_s": budget_s,
    }
    measured = [arrived.row.data["best"] for arrived in staged if _is_best(arrived.row.data.get("best"))]
    if measured or "best" in run.progress:
        progress["best"] = measured[-1] if measured else run.progress["best"]
    Run.objects.filter(pk=run.pk, attempt=run.attempt, status=run.status).update(
        stage=last.kind, candidate=last.candidate, progress=progress
    )


def _is_best(value: Any) -> bool:
    """The coordinator's `{"name": ..., "speedup": ...}`; events are quoted from a sandboxed child's world."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("name"), str)
        and isinstance(value.get("speedup"), (int, float))
        and set(value) == {"name", "speedup"}
    )
