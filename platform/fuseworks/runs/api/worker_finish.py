"""A worker hands in the result. One that is not valid ends the run with our fault, so it is answered 200 too."""

from __future__ import annotations

import uuid
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from fuseworks.core.discovery import endpoint
from fuseworks.runs.services import run_finish
from fuseworks.runs.worker_api import AttemptBody, WorkerView


class FinishBody(AttemptBody):
    result = serializers.JSONField(allow_null=True)


@extend_schema(exclude=True)
@endpoint("worker/runs/<uuid:run_id>/finish/", name="worker-finish")
class WorkerFinish(WorkerView):
    max_body_bytes = 64 << 20

    def post(self, request: Any, run_id: uuid.UUID) -> Response:
        given = self.body(request, FinishBody)
        run = run_finish(attempt=self.attempt_of(request, run_id, given["attempt"]), document=given["result"])
        return Response({"status": run.status})
