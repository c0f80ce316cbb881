"""One file that a run left, as a download: a report was written by a stranger's run and is not shown in the site."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import FileResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.views import APIView

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint
from fuseworks.core.lookup import get_or_404
from fuseworks.core.storage import serve
from fuseworks.runs.selectors import artifacts, run_visible
from fuseworks.runs.services import ARTIFACTS


@endpoint("runs/<uuid:run_id>/artifacts/<str:name>/", name="run-artifact")
class RunArtifact(APIView):
    @extend_schema(operation_id="runs_artifact", responses={(200, "application/octet-stream"): OpenApiTypes.BINARY})
    def get(self, request: Any, run_id: uuid.UUID, name: str) -> FileResponse:
        """One of them. `package.zip` is what is deployed, `recipe.yaml` what can be applied to other models."""
        run = run_visible(actor=actor_of(request), run_id=run_id)
        artifact = get_or_404(artifacts(run=run), what="file", name=name)
        filename = f"{run.version.model.slug}-v{run.version.number}-{name}"
        return serve(
            artifact.storage_key,
            filename=filename,
            content_type=ARTIFACTS[name].content_type,
            size=artifact.size_bytes,
        )
