"""A worker says what it is and can do."""

from __future__ import annotations

import math
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from fuseworks.core.discovery import endpoint
from fuseworks.fleet.selectors import heartbeat_s
from fuseworks.fleet.services import worker_hello
from fuseworks.fleet.worker_api import FleetView, NameBody
from workers.messages import TARGET


class HelloBody(NameBody):
    host = serializers.CharField(max_length=200)
    target = serializers.RegexField(f"^(?:{TARGET.pattern})$", max_length=40)
    manifest = serializers.DictField()
    noise_floor = serializers.FloatField(required=False, allow_null=True, min_value=0)
    noise_floor_conditions = serializers.DictField(required=False)

    def validate_noise_floor(self, value: float | None) -> float | None:
        if value is not None and not math.isfinite(value):
            raise serializers.ValidationError("a number")
        return value


@extend_schema(exclude=True)
@endpoint("worker/hello/", name="worker-hello")
class WorkerHello(FleetView):
    def post(self, request: Any) -> Response:
        worker = worker_hello(**self.body(request, HelloBody))
        return Response({"worker_id": str(worker.pk), "heartbeat_s": heartbeat_s()})
