"""A worker fetches the uploads of its run: `model`, and `against` of a comparison."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import FileResponse
from drf_spectacular.utils import extend_schema

from fuseworks.core.discovery import endpoint
from fuseworks.core.errors import PlatformError
from fuseworks.core.storage import serve
from fuseworks.runs.models import AttemptState
from fuseworks.runs.worker_api import AttemptBody, WorkerView


@extend_schema(exclude=True)
@endpoint("worker/runs/<uuid:run_id>/files/<str:role>/", name="worker-file")
class WorkerFile(WorkerView):
    def get(self, request: Any, run_id: uuid.UUID, role: str) -> FileResponse:
        query = AttemptBody(data=request.query_params)
        query.is_valid(raise_exception=True)
        attempt = self.attempt_of(request, run_id, query.validated_data["attempt"])
        if attempt.state != AttemptState.CLAIMED:
            raise PlatformError("runs:usage:stale", attempt=attempt.number)
        version = {"model": attempt.run.version, "against": attempt.run.against}.get(role)
        if version is None or not version.storage_key:
            raise PlatformError("core:usage:not-found", what="file")
        return serve(
            version.storage_key,
            filename=version.filename,
            content_type="application/octet-stream",
            size=version.size_bytes,
        )
