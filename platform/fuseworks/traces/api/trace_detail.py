"""`traces/<uuid>/`: one trace. It is deleted, and downloaded, as the version that it is (`versions/<uuid>/`)."""

from __future__ import annotations

import uuid
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response
from rest_framework.views import APIView

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint
from fuseworks.traces import selectors
from fuseworks.traces.api.serializers import TraceSerializer


@endpoint("traces/<uuid:version_id>/", name="trace-detail")
class TraceDetail(APIView):
    @extend_schema(responses=TraceSerializer)
    def get(self, request: Any, version_id: uuid.UUID) -> Response:
        """One trace and the run that diagnoses it. Against another one: a run of purpose `diagnose` with `against`."""
        trace = selectors.trace_get(actor=actor_of(request), version_id=version_id)
        return Response(TraceSerializer(trace, context={"request": request}).data)
