"""Reads of runs: what a reader may see of them, their events in order, and what a page shows while one works."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.fields.json import KeyTextTransform
from django.utils import timezone
from django.utils.translation import gettext

from fuseworks.accounts.permissions import Actor
from fuseworks.core.connections import let_go
from fuseworks.core.lookup import get_or_404
from fuseworks.registry.models import ModelVersion
from fuseworks.runs.models import RESULT_BODY, Artifact, Attempt, AttemptState, Run, RunEvent, Status
from fuseworks.runs.services.ending import worked_s
from optimizer.result import Stage

RELATED = ("team", "version__model", "created_by", "cancelled_by", "result", "gate_check")
SHOWN_EVENTS, SHOWN_ATTEMPTS = 200, 10
EVENTS_A_PAGE = 500
# An event's place among all of its run, over its attempts: what readers hand back as `after`.
POSITIONS_AN_ATTEMPT = 1_000_000
POLL_S = 0.5
LARGEST_POSITION = 2**31 * POSITIONS_AN_ATTEMPT


def runs_visible(*, actor: Actor) -> QuerySet[Run]:
    """Newest first, with what lists and pages show of each."""
    runs: QuerySet[Run] = Run.objects.visible_to(actor).select_related(*RELATED).defer(*RESULT_BODY)
    return runs.order_by("-created_at", "id")


def run_visible(*, actor: Actor, run_id: uuid.UUID) -> Run:
    """Raises PlatformError (`core:usage:not-found`)."""
    run: Run = get_or_404(runs_visible(actor=actor), what="run", pk=run_id)
    return run


def current_attempt(*, run: Run) -> Attempt | None:
    """The one that the fencing counter names, open or over."""
    return Attempt.objects.filter(run=run, number=run.attempt).select_related("worker").first()


def elapsed_s(*, run: Run, attempt: Attempt | None, now: datetime | None = None) -> float:
    """Seconds of work so far, over all attempts; time in the queue does not count."""
    if attempt is None or attempt.state != AttemptState.CLAIMED:
        return run.worked_s
    return run.worked_s + worked_s(attempt, now or timezone.now())


def position(event: RunEvent) -> int:
    return event.attempt * POSITIONS_AN_ATTEMPT + event.number


@dataclass(frozen=True)
class Events:
    """`next` is what to ask for after these."""

    events: list[RunEvent]
    next: int
    more: bool


def events_after(*, run: Run, after: int = 0, limit: int = EVENTS_A_PAGE) -> Events:
    """Events of all attempts whose position is above `after`, in order."""
    attempt, number = divmod(min(max(after, 0), LARGEST_POSITION), POSITIONS_AN_ATTEMPT)
    later = RunEvent.objects.filter(Q(attempt=attempt, number__gt=number) | Q(attempt__gt=attempt), run=run)
    found = list(later.order_by("attempt", "number")[: limit + 1])
    shown = found[:limit]
    return Events(shown, position(shown[-1]) if shown else after, len(found) > limit)


def events_awaited(
    *, run: Run, after: int, wait_s: float, sleep: Callable[[float], None] = time.sleep, limit: int = EVENTS_A_PAGE
) -> Events:
    """Like `events_after`, but waits up to `wait_s` for the first of them; at once when the run is over."""
    deadline = time.monotonic() + wait_s
    while True:
        # the status is read first: events that came before the end are then surely seen
        run.refresh_from_db(fields=["status"])
        found = events_after(run=run, after=after, limit=limit)
        if found.events or run.is_terminal or time.monotonic() >= deadline:
            return found
        let_go()
        sleep(POLL_S)


def last_events(*, run: Run, limit: int = SHOWN_EVENTS) -> list[Any]:
    """The newest ones, in order. Of their data only `detail` is read, as `event.detail`: the rest may be large."""
    newest = RunEvent.objects.filter(run=run).order_by("-attempt", "-number")
    shown = newest.only("attempt", "number", "kind", "at_s", "message", "done", "total")
    return list(shown.annotate(detail=KeyTextTransform("detail", "data"))[:limit])[::-1]


def last_position(*, run: Run) -> int:
    """Of the newest event, 0 before the first: whether there is anything to read, without reading it."""
    newest = RunEvent.objects.filter(run=run).order_by("-attempt", "-number")
    event = newest.only("attempt", "number").first()
    return position(event) if event is not None else 0


def artifacts(*, run: Run) -> QuerySet[Artifact]:
    """What the run's last attempt left; an earlier one's files are nobody's answer."""
    found: QuerySet[Artifact] = Artifact.objects.filter(run=run, attempt=run.attempt).order_by("name")
    return found


@dataclass(frozen=True)
class StageState:
    """One of the seven stages: `pending`, `current` or `seen` (a stage may come back); the last one of a run that did
    not succeed is `failed` or `cancelled`."""

    name: str
    state: str


def stages(*, run: Run) -> list[StageState]:
    kinds = RunEvent.objects.filter(run=run, attempt=run.attempt).values_list("kind", flat=True).distinct()
    seen = set(kinds)

    at_last = "current"
    if run.is_terminal:
        at_last = {Status.SUCCEEDED: "seen", Status.CANCELLED: "cancelled"}.get(Status(run.status), "failed")

    def state(name: str) -> str:
        if name == run.stage:
            return at_last
        return "seen" if name in seen else "pending"

    return [StageState(stage.value, state(stage.value)) for stage in Stage]


@dataclass(frozen=True)
class Measurement:
    """A candidate's screening: no verdict, only what the run has seen so far."""

    candidate: str
    speedup: float
    median_ms: float | None


def measurements(*, run: Run) -> list[Measurement]:
    """The last screening of each candidate of the current attempt, the fastest first."""
    rows = RunEvent.objects.filter(run=run, attempt=run.attempt, kind=Stage.BENCHMARKING, data__has_key="speedup")
    latest: dict[str, Measurement] = {}
    for row in rows.exclude(candidate="").order_by("number"):
        speedup, median_ms = _number(row.data["speedup"]), _number(row.data.get("median_ms"))
        if speedup is not None:
            before = latest.get(row.candidate)
            known_ms = before.median_ms if before is not None else None
            latest[row.candidate] = Measurement(row.candidate, speedup, median_ms or known_ms)
    return sorted(latest.values(), key=lambda m: (-m.speedup, m.candidate))


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def has_its_files(*, run: Run) -> bool:
    """Whether what it ran, or compared with, was not deleted since."""
    return all(one is None or one.deleted_at is None for one in (run.version, run.against))


def against_visible(*, actor: Actor, run: Run) -> ModelVersion | None:
    """The version that a run compares with, when the reader may see it: it may be another team's, which only whoever
    started the run needs to see. Nothing else may show `run.against` to a reader."""
    if run.against_id is None:
        return None
    return ModelVersion.objects.visible_to(actor).select_related("model").filter(pk=run.against_id).first()


def sees_against(*, actor: Actor, path: str) -> Exists:
    """The same question for many rows: an annotation; `path` leads to the field, as `run__against`."""
    return Exists(ModelVersion.objects.visible_to(actor).filter(pk=OuterRef(path)))


def against_label(*, run: Run, against: ModelVersion | None) -> str:
    """`against` is what `against_visible` gave. Empty for a run that compares nothing."""
    if against is not None:
        return str(against)
    return gettext("a version of another team") if run.against_id is not None else ""


def last_attempts(*, run: Run, limit: int = SHOWN_ATTEMPTS) -> list[Attempt]:
    """The newest ones, in order."""
    newest = Attempt.objects.filter(run=run).select_related("worker").order_by("-number")
    return list(newest[:limit])[::-1]
