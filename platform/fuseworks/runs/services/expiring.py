"""What time takes of runs that are over: after RUN_FILES_DAYS their events, reports, samples and logs.

What they were for stays: the run with its attempts, its result with tables and curves, evidence, the outcome of a gate,
the recipe, and the package, which goes with the file of its version.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from fuseworks.runs.models import TERMINAL, Artifact, Run, RunEvent
from fuseworks.runs.services.files import files_drop

KEPT = ("package.zip", "recipe.yaml")


def has_expired(*, run: Run, now: datetime) -> bool:
    """Whether its events and files are, or may be any moment, deleted."""
    if settings.RUN_FILES_DAYS == 0 or run.ended_at is None:
        return False
    return run.ended_at < now - timedelta(days=settings.RUN_FILES_DAYS)


def runs_expired(now: datetime) -> QuerySet[Run]:
    """Those past RUN_FILES_DAYS that still have something to lose; none when it is 0."""
    if settings.RUN_FILES_DAYS == 0:
        return Run.objects.none()
    since = now - timedelta(days=settings.RUN_FILES_DAYS)
    events = RunEvent.objects.filter(run=OuterRef("pk"))
    found: QuerySet[Run] = Run.objects.filter(
        Exists(events) | Exists(_files().filter(run=OuterRef("pk"))), status__in=TERMINAL, ended_at__lt=since
    )
    return found


def run_expire(run: Run) -> None:
    """Nobody writes to a run that is over."""
    with transaction.atomic():
        RunEvent.objects.filter(run=run).delete()
        files_drop(_files().filter(run=run))


def _files() -> QuerySet[Artifact]:
    found: QuerySet[Artifact] = Artifact.objects.exclude(name__in=KEPT)
    return found
