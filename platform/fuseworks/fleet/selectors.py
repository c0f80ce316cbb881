"""Reads of the fleet: which workers are alive and free, what waits for them, and when a run's turn comes."""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from fuseworks.accounts.permissions import Actor
from fuseworks.fleet.fair_share import Load, Waiting, fair_order
from fuseworks.fleet.manifests import in_short
from fuseworks.fleet.models import Worker
from fuseworks.fleet.serving import queue, served_by
from fuseworks.runs.models import OPEN, Attempt, AttemptState, Purpose, Run, Status
from fuseworks.runs.services.attempts import IN_VAIN

BEATS_MISSED = 3
# A run that its worker gave back is not sent again at once: the same worker is free now, and would give it back again.
AFTER_GIVING_UP = timedelta(seconds=15)
STOPPED_SHOWN = timedelta(days=2)


def heartbeat_s() -> float:
    """Seconds between two signs of life that a worker is asked for."""
    return max(1.0, settings.LEASE_S / BEATS_MISSED)


def workers_alive(*, now: datetime) -> QuerySet[Worker]:
    """Heard of within three heartbeats, and not gone by their own word."""
    since = now - timedelta(seconds=BEATS_MISSED * heartbeat_s())
    return Worker.objects.filter(last_seen_at__gte=since, stopped_at=None)


def attempts_open(*, target: str | None = None) -> QuerySet[Attempt]:
    found = Attempt.objects.filter(state__in=OPEN)
    return found if target is None else found.alias(queue=queue("run__")).filter(queue=target)


def free_workers(*, now: datetime) -> dict[str, int]:
    """By target: living workers that have no run, less the messages that are on their way already."""
    claimed = Attempt.objects.filter(worker=OuterRef("pk"), state=AttemptState.CLAIMED)
    free = Counter(workers_alive(now=now).exclude(Exists(claimed)).values_list("target", flat=True))
    on_their_way = Attempt.objects.filter(state=AttemptState.SENT).values_list(queue("run__"), flat=True)
    nobodys = Attempt.objects.filter(state=AttemptState.CLAIMED, worker=None).values_list(queue("run__"), flat=True)
    free.subtract(on_their_way)
    free.subtract(nobodys)
    return {target: count for target, count in free.items() if count > 0}


def waiting(*, target: str, now: datetime) -> list[Waiting]:
    """Queued runs that no message is on its way for, but those whose last messages nobody took up, for a while."""
    sent = Attempt.objects.filter(run=OuterRef("pk"), state__in=OPEN)
    given_up = Attempt.objects.filter(
        run=OuterRef("pk"), state=AttemptState.GAVE_UP, ended_at__gt=now - AFTER_GIVING_UP
    )
    rows = (
        Run.objects.alias(queue=queue())
        .filter(status=Status.QUEUED, queue=target, cancel_requested_at=None)
        .exclude(Exists(sent))
        .exclude(Exists(given_up))
        .filter(Q(send_after=None) | Q(send_after__lte=now))
        .values_list("pk", "team_id", "team__business_unit_id", "purpose", "created_at")
    )
    return [Waiting(pk, team, unit, purpose == Purpose.INSPECT, at) for pk, team, unit, purpose, at in rows]


def load(*, target: str) -> Load:
    rows = list(attempts_open(target=target).values_list("run__team__business_unit_id", "run__team_id"))
    return Load(units=Counter(unit for unit, _ in rows), teams=Counter(team for _, team in rows))


@dataclass(frozen=True)
class QueuePlace:
    """Of a queued run. `position` 0 is the next one; `waits_for` is `worker`, `turn`, `claim`, or `link`: it was sent
    `sent_in_vain` times, three at least."""

    position: int
    workers: int
    waits_for: str
    sent_in_vain: int = 0

    @property
    def reason(self) -> str:
        if self.waits_for == "link":
            said = _("Sent %(count)s times, and no worker took it: look at the workers' link to the broker.")
            return str(said % {"count": self.sent_in_vain})
        if self.waits_for == "claim":
            return str(_("Sent to a worker, which has not begun yet."))
        if self.waits_for == "worker":
            return str(_("No worker serves this target at the moment."))
        if self.position == 0:
            return str(_("Next: it waits for a worker that is free. An inspection that comes meanwhile goes first."))
        before = ngettext("%(count)s run is before it.", "%(count)s runs are before it.", self.position)
        shares = _(
            "Inspections go first, then business units take turns: it may grow when an inspection comes, or when a "
            "unit with fewer runs at work asks for one."
        )
        return f"{before % {'count': self.position}} {shares}"


def queue_place(*, run: Run, now: datetime | None = None) -> QueuePlace | None:
    """How many runs would be sent before this one, as things stand; None unless it is queued. Runs that end and runs
    that come change it."""
    if run.status != Status.QUEUED:
        return None
    now = now or timezone.now()
    target = served_by(run)
    workers = workers_alive(now=now).filter(target=target).count()
    if workers and run.unclaimed >= IN_VAIN:
        return QueuePlace(0, workers, "link", run.unclaimed)
    if Attempt.objects.filter(run=run, state=AttemptState.SENT).exists():
        return QueuePlace(0, workers, "claim" if workers else "worker")
    ahead = 0
    for turn in fair_order(waiting(target=target, now=now), load(target=target)):
        if turn.run_id == run.pk:
            break
        ahead += 1
    return QueuePlace(ahead, workers, "turn" if workers else "worker")


@dataclass(frozen=True)
class WorkerView:
    """A worker as pages show it. `run` is what it works on, when the reader may see that."""

    worker: Worker
    state: str = field(metadata={"values": "idle, busy, silent, stopped"})
    run: Run | None

    @property
    def manifest(self) -> dict[str, Any]:
        return self.worker.manifest if isinstance(self.worker.manifest, dict) else {}

    @property
    def manifest_in_short(self) -> dict[str, Any]:
        return in_short(self.manifest)


def fleet(*, actor: Actor, now: datetime | None = None, manifests: bool = True) -> list[WorkerView]:
    """All workers but those that stopped long ago; whose run a busy one has is told only to who may see it. Without
    `manifests` these (some hundred kilobytes each) are not read."""
    now = now or timezone.now()
    since = now - STOPPED_SHOWN
    known = Worker.objects.filter(last_seen_at__gte=since).order_by("target", "name")
    rows = list(known if manifests else known.defer("manifest"))
    alive = set(workers_alive(now=now).values_list("pk", flat=True))
    claimed: dict[uuid.UUID | None, uuid.UUID] = dict(
        Attempt.objects.filter(state=AttemptState.CLAIMED, worker__in=rows).values_list("worker_id", "run_id")
    )
    seen = Run.objects.visible_to(actor).select_related("version__model").in_bulk(list(set(claimed.values())))
    return [_view(worker, alive, claimed, seen) for worker in rows]


def _view(
    worker: Worker, alive: set[uuid.UUID], claimed: dict[uuid.UUID | None, uuid.UUID], seen: dict[uuid.UUID, Run]
) -> WorkerView:
    if worker.stopped_at is not None:
        return WorkerView(worker, "stopped", None)
    if worker.pk not in alive:
        return WorkerView(worker, "silent", None)
    run_id = claimed.get(worker.pk)
    return WorkerView(worker, "busy" if run_id else "idle", seen.get(run_id) if run_id else None)


@dataclass(frozen=True)
class Queue:
    """Of the workers of one target (`serving.py` says what they serve). `waiting` counts runs of all teams; `in_vain`
    those of them that were sent IN_VAIN times or more, and that no worker took up."""

    target: str
    waiting: int
    running: int
    workers: int
    free: int
    in_vain: int

    @property
    def is_unserved(self) -> bool:
        return self.waiting > 0 and self.workers == 0


def queues(*, now: datetime | None = None) -> list[Queue]:
    """Of every target that a living worker serves or a run waits for."""
    now = now or timezone.now()
    workers = Counter(workers_alive(now=now).values_list("target", flat=True))
    waits = Run.objects.filter(status=Status.QUEUED)
    queued = Counter(waits.values_list(queue(), flat=True))
    in_vain = Counter(waits.filter(unclaimed__gte=IN_VAIN).values_list(queue(), flat=True))
    running = Counter(Run.objects.filter(status=Status.RUNNING).values_list(queue(), flat=True))
    free = free_workers(now=now)
    targets = sorted(set(workers) | set(queued) | set(running))
    return [Queue(t, queued[t], running[t], workers[t], free.get(t, 0), in_vain[t]) for t in targets]


def targets_served(*, now: datetime | None = None) -> list[str]:
    """What a run may be started for and begin soon."""
    found = workers_alive(now=now or timezone.now()).values_list("target", flat=True).distinct()
    return sorted(found)
