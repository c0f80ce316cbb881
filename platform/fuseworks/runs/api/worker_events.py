"""A worker posts events of the coordinator, numbered within its attempt. A doubled post changes nothing."""

from __future__ import annotations

import uuid
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from fuseworks.core.discovery import endpoint
from fuseworks.runs.services import events_append
from fuseworks.runs.worker_api import AttemptBody, WorkerView

MAX_EVENTS_A_POST = 500


class EventsBody(AttemptBody):
    first = serializers.IntegerField(min_value=0, max_value=2**31 - 1 - MAX_EVENTS_A_POST)
    events = serializers.ListField(child=serializers.DictField(), max_length=MAX_EVENTS_A_POST)


@extend_schema(exclude=True)
@endpoint("worker/runs/<uuid:run_id>/events/", name="worker-events")
class WorkerEvents(WorkerView):
    max_body_bytes = 4 << 20

    def post(self, request: Any, run_id: uuid.UUID) -> Response:
        given = self.body(request, EventsBody)
        attempt = self.attempt_of(request, run_id, given["attempt"])
        return Response({"next": events_append(attempt=attempt, first=given["first"], events=given["events"])})
