"""The files that a run left."""

from __future__ import annotations

import uuid
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response
from rest_framework.views import APIView

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint
from fuseworks.runs.selectors import artifacts, run_visible
from fuseworks.runs.serializers import ArtifactSerializer


@endpoint("runs/<uuid:run_id>/artifacts/", name="run-artifacts")
class RunArtifacts(APIView):
    @extend_schema(operation_id="runs_artifacts", responses=ArtifactSerializer(many=True))
    def get(self, request: Any, run_id: uuid.UUID) -> Response:
        """The files that its last attempt left, with their sizes and digests."""
        run = run_visible(actor=actor_of(request), run_id=run_id)
        return Response(ArtifactSerializer(artifacts(run=run), many=True, context={"request": request}).data)
