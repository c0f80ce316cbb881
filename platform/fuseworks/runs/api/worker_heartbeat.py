"""A worker says that it is at it. The answer says whether to cancel, and how much time is left.

`works` is false while it waits for its device, and while it hands in its result: neither counts as work.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from fuseworks.core.discovery import endpoint
from fuseworks.runs.services import attempt_heartbeat
from fuseworks.runs.worker_api import AttemptBody, WorkerView


class HeartbeatBody(AttemptBody):
    works = serializers.BooleanField(default=True)


@extend_schema(exclude=True)
@endpoint("worker/runs/<uuid:run_id>/heartbeat/", name="worker-heartbeat")
class WorkerHeartbeat(WorkerView):
    def post(self, request: Any, run_id: uuid.UUID) -> Response:
        given = self.body(request, HeartbeatBody)
        attempt = self.attempt_of(request, run_id, given["attempt"])
        beat = attempt_heartbeat(attempt=attempt, works=given["works"])
        return Response({"lease_s": settings.LEASE_S, "cancel": beat.cancel, "time_left_s": beat.time_left_s})
