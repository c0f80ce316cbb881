"""A worker sends a file of its run as a raw body, with its SHA-256 in the header X-Content-SHA256."""

from __future__ import annotations

import re
import uuid
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.parsers import BaseParser
from rest_framework.response import Response

from fuseworks.core.discovery import endpoint
from fuseworks.core.errors import PlatformError
from fuseworks.core.numbers import whole_number
from fuseworks.runs.services import artifact_store
from fuseworks.runs.worker_api import AttemptBody, WorkerView

SHA256 = re.compile(r"[0-9a-f]{64}")


class RawBody(BaseParser):
    """Leaves the body where it is: the service streams it."""

    media_type = "*/*"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        return stream


@extend_schema(exclude=True)
@endpoint("worker/runs/<uuid:run_id>/artifacts/<str:name>/", name="worker-artifact")
class WorkerArtifact(WorkerView):
    parser_classes = (RawBody,)

    def put(self, request: Any, run_id: uuid.UUID, name: str) -> Response:
        query = AttemptBody(data=request.query_params)
        query.is_valid(raise_exception=True)
        attempt = self.attempt_of(request, run_id, query.validated_data["attempt"])
        sha256 = request.headers.get("X-Content-SHA256", "").lower()
        if not SHA256.fullmatch(sha256):
            raise PlatformError("core:usage:invalid", text="X-Content-SHA256 has the body's 64 hexadecimal digits")
        stored = artifact_store(
            attempt=attempt,
            name=name,
            stream=request._request,  # the request's own: DRF would look for a form in it first
            expected_sha256=sha256,
            length_bytes=whole_number(request.headers.get("Content-Length", "")),
        )
        return Response(
            {"name": stored.name, "size_bytes": stored.size_bytes, "sha256": stored.sha256},
            status=status.HTTP_201_CREATED,
        )
