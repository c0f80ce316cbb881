"""Runs of a version whose inspection failed by the model's own fault. Without a workload of their own they would
capture it as the inspection did, and fail alike: those that wait are ended as `failed`, and no more are started, until
another inspection says otherwise.
"""

from __future__ import annotations

from datetime import datetime

from fuseworks.core.errors import PlatformError
from fuseworks.registry.models import ModelVersion, Workload
from fuseworks.runs.models import Purpose, Run, Status
from fuseworks.runs.services import ending


def check_inspected(*, purpose: str, version: ModelVersion, workload: Workload | None) -> None:
    """Raises PlatformError (`runs:user:inspection-failed`)."""
    from fuseworks.registry.selectors import inspect_run  # the registry's services start runs

    if purpose == Purpose.INSPECT or workload is not None:
        return
    inspection = inspect_run(version=version)
    if inspection is not None and _is_models_fault(inspection):
        raise _problem(inspection)


def waiting_end(*, inspection: Run, now: datetime) -> None:
    """In the transaction that ends the inspection: when it failed by the model's fault, what waits ends, too."""
    if not _is_models_fault(inspection):
        return
    waits = Run.objects.select_for_update(no_key=True).order_by("pk")
    waits = waits.filter(version_id=inspection.version_id, workload=None, status=Status.QUEUED)
    for run in waits.exclude(purpose=Purpose.INSPECT):
        told = "its version's inspection failed"
        ending.end_queued(run, Status.FAILED, now=now, void=told, reason=told, problem=_problem(inspection))


def _is_models_fault(inspection: Run) -> bool:
    return bool(inspection.status == Status.FAILED and (inspection.problem or {}).get("side") == "user")


def _problem(inspection: Run) -> PlatformError:
    found = inspection.problem or {}
    return PlatformError(
        "runs:user:inspection-failed",
        place=found.get("place"),
        version=str(inspection.version),
        text=str(found.get("message", "")),
        remedy=str(found.get("remedy", "")),
    )
