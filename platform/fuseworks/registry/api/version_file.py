"""`versions/<uuid>/file/`: the uploaded bytes."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import FileResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.views import APIView

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint
from fuseworks.registry.downloads import version_download


@endpoint("versions/<uuid:version_id>/file/", name="version-file")
class VersionFile(APIView):
    @extend_schema(responses={(200, "application/octet-stream"): OpenApiTypes.BINARY})
    def get(self, request: Any, version_id: uuid.UUID) -> FileResponse:
        """Download the uploaded file."""
        return version_download(actor=actor_of(request), version_id=version_id)
