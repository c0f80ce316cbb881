"""Cancels a run: one in the queue at once, a running one as soon as its worker hears of it."""

from __future__ import annotations

import uuid
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.response import Response
from rest_framework.views import APIView

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint
from fuseworks.runs.selectors import run_visible
from fuseworks.runs.serializers import RunDetailSerializer
from fuseworks.runs.services import run_cancel


@endpoint("runs/<uuid:run_id>/cancel/", name="run-cancel")
class RunCancel(APIView):
    @extend_schema(operation_id="runs_cancel", request=None, responses={202: RunDetailSerializer})
    def post(self, request: Any, run_id: uuid.UUID) -> Response:
        """End a queued run at once; ask the worker of a running one, which ends it within seconds (`cancel_requested`).
        Asked again it answers the same; 409 (`runs:usage:over`) once the run is over."""
        actor = actor_of(request)
        run_cancel(actor=actor, run=run_visible(actor=actor, run_id=run_id))
        run = run_visible(actor=actor, run_id=run_id)
        return Response(RunDetailSerializer(run, context={"request": request}).data, status=status.HTTP_202_ACCEPTED)
