"""A worker that ends says so, and gets no more runs."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from fuseworks.core.discovery import endpoint
from fuseworks.fleet.services import worker_goodbye
from fuseworks.fleet.worker_api import FleetView, NameBody


@extend_schema(exclude=True)
@endpoint("worker/goodbye/", name="worker-goodbye")
class WorkerGoodbye(FleetView):
    def post(self, request: Any) -> Response:
        worker_goodbye(**self.body(request, NameBody))
        return Response({})
