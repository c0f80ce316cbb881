"""`runs/<uuid>/diagnosis/`: what a diagnose run found, as the command line prints it; `?format=` one of the exports."""

from __future__ import annotations

import json
import uuid
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint
from fuseworks.core.openapi import schema_of
from fuseworks.traces import selectors
from fuseworks.traces.exports import FORMATS
from fuseworks.traces.reading.document import diagnosis_or_404
from optimizer.result import Diagnosis


class ExportRenderer(BaseRenderer):
    """What is written already passes as it is."""

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        # an error is a document even where a table was asked for
        return (data if isinstance(data, str) else json.dumps(data, default=str)).encode()


RENDERERS = tuple(
    type(f"{name.title()}Renderer", (ExportRenderer,), {"media_type": form.content_type, "format": name})
    for name, form in FORMATS.items()
)
OTHERS = {form.content_type: OpenApiTypes.STR for name, form in FORMATS.items() if name != "json"}


@endpoint("runs/<uuid:run_id>/diagnosis/", name="run-diagnosis")
class RunDiagnosis(APIView):
    renderer_classes = RENDERERS

    @extend_schema(
        operation_id="run_diagnosis",
        parameters=[OpenApiParameter("format", str, enum=list(FORMATS), description="json unless said")],
        responses={
            (200, "application/json"): schema_of(Diagnosis),
            **{(200, content_type): kind for content_type, kind in OTHERS.items()},
            404: OpenApiResponse(description="no such diagnose run, or it left no diagnosis (yet)"),
        },
    )
    def get(self, request: Request, run_id: uuid.UUID) -> Response:
        """Facts and findings of a trace, ranked by what mending them gives back; against another trace the comparison,
        too. 404 until there is one."""
        run = selectors.diagnosis_run(actor=actor_of(request), run_id=run_id)
        wanted = request.accepted_renderer.format  # type: ignore[attr-defined]
        return Response(FORMATS[wanted].written(diagnosis_or_404(run)))
