"""Runs once more what is over: a new run that asks the same."""

from __future__ import annotations

import uuid
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response
from rest_framework.views import APIView

from fuseworks.accounts.idempotency import KEY, answers, once
from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint
from fuseworks.runs.selectors import run_visible
from fuseworks.runs.serializers import RunDetailSerializer
from fuseworks.runs.services import run_retry


@endpoint("runs/<uuid:run_id>/retry/", name="run-retry")
class RunRetry(APIView):
    @extend_schema(operation_id="runs_retry", request=None, parameters=[KEY], responses=answers(RunDetailSerializer))
    def post(self, request: Any, run_id: uuid.UUID) -> Response:
        """Start a run that asks the same as one that is over, with the same limit of a gate."""
        actor = actor_of(request)
        run = once(
            request,
            actor=actor,
            make=lambda: run_retry(actor=actor, run=run_visible(actor=actor, run_id=run_id)),
            find=lambda made: run_visible(actor=actor, run_id=made),
        )
        return Response(RunDetailSerializer(run.row, context={"request": request}).data, status=run.status)
