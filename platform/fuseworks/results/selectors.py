"""Reads results. What the reader may not see does not exist for him."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from fuseworks.accounts.permissions import Actor
from fuseworks.core.errors import PlatformError
from fuseworks.core.lookup import get_or_404
from fuseworks.registry.models import Model
from fuseworks.results import errors  # noqa: F401  (importing registers)
from fuseworks.results.models import RunResult
from fuseworks.runs.models import RESULT_BODY, Artifact, Purpose, Run

RELATED = ("version__model__team", "against__model", "workload", "recipe_version__recipe", "created_by")
MOST_COMPARED = 6


def run_visible(*, actor: Actor, run_id: uuid.UUID) -> Run:
    """Raises PlatformError: 404 for a run that is not there or may not be seen."""
    return get_or_404(Run.objects.visible_to(actor).select_related(*RELATED, "result"), what="run", pk=run_id)


def result_of(run: Run) -> RunResult | None:
    """Of a run that `run_visible` gave."""
    return getattr(run, "result", None)


def result_or_404(run: Run) -> RunResult:
    """Raises PlatformError: `results:usage:none-yet` while the run goes on, `results:usage:none` when it left none."""
    found = result_of(run)
    if found is None:
        id_ = "results:usage:none" if run.is_terminal else "results:usage:none-yet"
        raise PlatformError(id_, status=run.get_status_display().lower(), run_id=run.pk)
    return found


def run_ids(values: list[str]) -> list[uuid.UUID]:
    """Out of `?runs=A,B` or `?runs=A&runs=B`. Raises PlatformError for what is no id."""
    words = [word.strip() for value in values for word in value.split(",") if word.strip()]
    try:
        return [uuid.UUID(word) for word in words]
    except ValueError as error:
        raise PlatformError("core:usage:invalid", text=_("runs takes ids of runs, separated by commas")) from error


def runs_compared(*, actor: Actor, run_ids: Sequence[uuid.UUID]) -> list[Run]:
    """The runs with their results, in the order asked for.

    Raises PlatformError: `results:usage:two-runs` for too few, too many or a repeated one, 404 for one that the reader
    may not see or that has no result.
    """
    if len(set(run_ids)) != len(run_ids) or not 2 <= len(run_ids) <= MOST_COMPARED:
        raise PlatformError("results:usage:two-runs", count=len(set(run_ids)), most=MOST_COMPARED)
    runs = [run_visible(actor=actor, run_id=run_id) for run_id in run_ids]
    for run in runs:
        result_or_404(run)
    return runs


def runs_to_choose(*, actor: Actor, model: Model | None = None) -> QuerySet[Run]:
    """Runs that judged something, newest first: what the picker of a comparison offers."""
    judged = Run.objects.visible_to(actor).filter(
        purpose__in=[Purpose.OPTIMIZE, Purpose.REPLAY], result__speedup__isnull=False
    )
    if model is not None:
        judged = judged.filter(version__model=model)
    return judged.select_related("version__model__team", "result").defer(*RESULT_BODY).order_by("-created_at")


def artifacts_of(run: Run) -> list[Artifact]:
    """Those of the attempt that left the result; of the last attempt when none did."""
    result = result_of(run)
    attempt = result.attempt if result is not None else run.attempt
    return list(run.artifacts.filter(attempt=attempt).order_by("name"))


def artifact_or_404(run: Run, name: str) -> Artifact:
    found = next((one for one in artifacts_of(run) if one.name == name), None)
    if found is None:
        raise PlatformError("results:usage:no-such-file", name=name)
    return found
