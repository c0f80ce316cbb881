"""What an inspect run leaves with its version: what is in the upload, and the first workload. Or, when it failed, no
run that would fail alike."""

from __future__ import annotations

from django.utils import timezone

from fuseworks.registry.models import ModelVersion, WorkloadSource
from fuseworks.registry.services.workloads import add_revision
from fuseworks.runs.finished import when_finished
from fuseworks.runs.models import Purpose, Run
from fuseworks.runs.services import waiting_end
from optimizer.result import Result


@when_finished
def inspected(run: Run, result: Result) -> None:
    """In the transaction that ends the run. A workload that somebody wrote meanwhile stays the current one."""
    if run.purpose != Purpose.INSPECT or result.inspection is None:
        return
    version = ModelVersion.objects.select_for_update().get(pk=run.version_id)
    version.inspection = result.inspection.model_dump(mode="json")
    version.updated_at = timezone.now()
    version.save(update_fields=["inspection", "updated_at"])
    if result.workload is not None and not version.workloads.exists():
        add_revision(version=version, spec=result.workload, source=WorkloadSource.INSPECTED, by=run.created_by)


@when_finished
def not_inspected(run: Run, result: Result) -> None:
    if run.purpose == Purpose.INSPECT:
        waiting_end(inspection=run, now=timezone.now())
