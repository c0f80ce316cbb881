"""A worker gives a run back that it cannot do, with the reason; `stopping`: because it was told to end."""

from __future__ import annotations

import uuid
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from fuseworks.core.discovery import endpoint
from fuseworks.runs.services import attempt_give_up
from fuseworks.runs.worker_api import AttemptBody, Text, WorkerView


class GiveUpBody(AttemptBody):
    reason = Text(max_length=400)
    stopping = serializers.BooleanField(default=False)


@extend_schema(exclude=True)
@endpoint("worker/runs/<uuid:run_id>/give-up/", name="worker-give-up")
class WorkerGiveUp(WorkerView):
    def post(self, request: Any, run_id: uuid.UUID) -> Response:
        given = self.body(request, GiveUpBody)
        attempt = self.attempt_of(request, run_id, given["attempt"])
        run = attempt_give_up(attempt=attempt, reason=given["reason"], stopping=given["stopping"])
        return Response({"status": run.status})
