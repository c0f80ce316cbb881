"""A worker's sign of life, whether it has a run or not."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from fuseworks.core.discovery import endpoint
from fuseworks.fleet.selectors import heartbeat_s
from fuseworks.fleet.services import worker_alive
from fuseworks.fleet.worker_api import FleetView, NameBody


@extend_schema(exclude=True)
@endpoint("worker/alive/", name="worker-alive")
class WorkerAlive(FleetView):
    def post(self, request: Any) -> Response:
        worker_alive(**self.body(request, NameBody))
        return Response({"heartbeat_s": heartbeat_s()})
