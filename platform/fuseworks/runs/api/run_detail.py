"""One run: status, stage, progress, place in the queue, and why it did not succeed."""

from __future__ import annotations

import uuid
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response
from rest_framework.views import APIView

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint
from fuseworks.runs.selectors import run_visible
from fuseworks.runs.serializers import RunDetailSerializer


@endpoint("runs/<uuid:run_id>/", name="run-detail")
class RunDetail(APIView):
    @extend_schema(operation_id="runs_retrieve", responses=RunDetailSerializer)
    def get(self, request: Any, run_id: uuid.UUID) -> Response:
        """One run: status, stage, place in the queue, and why it did not succeed. `links` has what belongs to it."""
        run = run_visible(actor=actor_of(request), run_id=run_id)
        return Response(RunDetailSerializer(run, context={"request": request}).data)
