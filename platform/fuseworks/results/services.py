"""Writes results: the document of a run that ended, and the measurement of two versions side by side."""

from __future__ import annotations

from typing import Any

from django.utils.functional import Promise
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from fuseworks.accounts.permissions import Actor
from fuseworks.core.errors import PlatformError
from fuseworks.core.storage import open_stored
from fuseworks.results import errors  # noqa: F401  (importing registers)
from fuseworks.results.models import RunResult
from fuseworks.results.reading.latencies import thinned
from fuseworks.results.sides import sides
from fuseworks.runs import scrub
from fuseworks.runs.models import Artifact, Purpose, Run
from optimizer.result import Result


def result_store(*, run: Run, result: Result) -> RunResult:
    """Called by the worker's side, in the transaction that ended the run. The figures are the document's own."""
    return RunResult.objects.create(
        run=run,
        attempt=run.attempt,
        document=scrub.storable(result.model_dump(mode="json", by_alias=True)),
        winner=(result.winner or "")[:300],
        fingerprint=(result.conditions.fingerprint if result.conditions else "")[:64],
        **_headline(run, result),
    )


def _headline(run: Run, result: Result) -> dict[str, Any]:
    """What lists sort by. A comparison of two versions is told as the run's version sees it, whichever was the base."""
    if run.purpose == Purpose.COMPARE:
        seen = sides(run, result)
        if seen is None:
            return {}
        medians = {"baseline_ms": result.baseline_ms, "best_ms": result.best_ms}
        if seen.version_name == seen.comparison.base:
            medians = {"baseline_ms": result.best_ms, "best_ms": result.baseline_ms}
        figures = {"speedup": seen.speedup.value, "speedup_low": seen.speedup.low, "speedup_high": seen.speedup.high}
        return {"verdict": seen.verdict.value, **figures, **medians}
    interval = result.speedup_ci
    return {
        "verdict": result.verdict.value if result.verdict else "",
        "speedup": result.speedup,
        "speedup_low": interval.low if interval else None,
        "speedup_high": interval.high if interval else None,
        "speedup_as_deployed": result.speedup_as_deployed,
        "baseline_ms": result.baseline_ms,
        "best_ms": result.best_ms,
    }


def curves_of(*, stored: RunResult, samples: Artifact) -> dict[str, Any]:
    """Of `reading.latencies.curves`: made of the samples and kept, by whoever reads them first.

    Raises PlatformError (404) when the file is gone; that is not kept.
    """
    if stored.curves is None:
        with open_stored(samples.storage_key) as file:
            stored.curves = scrub.storable(thinned(file, samples.size_bytes))
        RunResult.objects.filter(pk=stored.pk, curves__isnull=True).update(curves=stored.curves)
    found: dict[str, Any] = stored.curves
    return found


def measure_side_by_side(*, actor: Actor, first: Run, second: Run) -> Run:
    """Starts one `compare` run: the version of `second` against that of `first`, packaged by the recipe of the first's
    latest package where there is one, else as uploaded.

    Raises PlatformError: `results:usage:not-measurable`, and what `run_create` raises.
    """
    from fuseworks.runs.services import run_create

    reason = not_measurable(first, second)
    if reason is not None:
        raise PlatformError("results:usage:not-measurable", reason=reason)
    return run_create(
        actor=actor,
        version=second.version,
        purpose=Purpose.COMPARE,
        target=second.target,
        workload=second.workload,
        against=first.version,
    )


def not_measurable(first: Run, second: Run) -> str | Promise | None:
    """Why the two runs' versions cannot be measured side by side; None when they can."""
    if first.version_id == second.version_id:
        return _("both are of one version, which would be measured against itself")
    if first.team_id != second.team_id:
        return _("they are of two teams, and the run would show each of them what it finds in the other's")
    if first.target != second.target:
        return format_lazy(_("one is for {first}, the other for {second}"), first=first.target, second=second.target)
    gone = next((v for v in (first.version, second.version) if v.deleted_at is not None), None)
    return format_lazy(_("the file of {version} was deleted"), version=str(gone)) if gone is not None else None
