"""`traces/<team>/<job>/<file>`: a whole trace in one request, made for curl, as `registry.api.upload_file` for models:

curl -T trace.json.gz -H "Authorization: Bearer $TOKEN" $API/traces/ads-ranking/nightly/
"""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import status
from rest_framework.response import Response
from rest_framework.views import APIView

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint
from fuseworks.core.problems import CONTENT_TYPE
from fuseworks.registry.api.bodies import body_length, body_of
from fuseworks.registry.api.upload_file import SameBytesSerializer
from fuseworks.registry.models import Kind
from fuseworks.registry.selectors import team_of
from fuseworks.registry.services import upload_whole
from fuseworks.traces import selectors
from fuseworks.traces.api.serializers import TraceSerializer

BODY = {"application/octet-stream": OpenApiTypes.BINARY}
SHA256 = OpenApiParameter("sha256", str, description="64 hexadecimal digits; other bytes are refused")


@endpoint("traces/<slug:team>/<str:job>/<str:filename>", name="trace-file")
class TraceFile(APIView):
    @extend_schema(
        request=BODY,
        parameters=[SHA256],
        responses={
            201: TraceSerializer,
            (409, CONTENT_TYPE): OpenApiResponse(
                SameBytesSerializer, description="These very bytes are a trace of the job already: `version` is its id"
            ),
        },
    )
    def put(self, request: Any, team: str, job: str, filename: str) -> Response:
        """Upload a profiler trace (.json, .json.gz, or a .zip of many ranks) in one request; the team's job is made
        when there is none, and a run starts that diagnoses it. Needs no Idempotency-Key: the same bytes are never a
        second trace. What can be refused is, before the body is read."""
        actor = actor_of(request)
        made = upload_whole(
            actor=actor,
            team=team_of(actor=actor, slug=team),
            filename=filename,
            stream=body_of(request),
            length_bytes=body_length(request),
            model_name=job,
            kind=Kind.JOB,
            expected_sha256=request.query_params.get("sha256", ""),
        )
        trace = selectors.trace_get(actor=actor, version_id=made.pk)
        shown = TraceSerializer(trace, context={"request": request}).data
        return Response(shown, status=status.HTTP_201_CREATED, headers={"Location": shown["page"]})
