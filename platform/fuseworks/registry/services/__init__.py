"""What writes to the registry: models, uploads, versions, workloads, retention."""

from __future__ import annotations

from fuseworks.registry.services.models import model_create, model_update
from fuseworks.registry.services.retention import clean
from fuseworks.registry.services.uploads import (
    upload_append,
    upload_begin,
    upload_cancel,
    upload_finish,
    upload_whole,
)
from fuseworks.registry.services.versions import packages_of, runs_that_need, version_delete
from fuseworks.registry.services.workloads import workload_restore, workload_save

__all__ = [
    "clean",
    "model_create",
    "model_update",
    "packages_of",
    "runs_that_need",
    "upload_append",
    "upload_begin",
    "upload_cancel",
    "upload_finish",
    "upload_whole",
    "version_delete",
    "workload_restore",
    "workload_save",
]
