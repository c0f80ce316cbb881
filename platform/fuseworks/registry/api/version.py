"""`versions/<uuid>/`: one version; deleting it drops the file and keeps the rest."""

from __future__ import annotations

import uuid
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.response import Response
from rest_framework.views import APIView

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint
from fuseworks.core.errors import PlatformError
from fuseworks.registry import selectors
from fuseworks.registry.api.serializers import VersionDetailSerializer
from fuseworks.registry.services import version_delete


@endpoint("versions/<uuid:version_id>/", name="version-detail")
class VersionDetail(APIView):
    @extend_schema(responses=VersionDetailSerializer)
    def get(self, request: Any, version_id: uuid.UUID) -> Response:
        """One version, with what the inspection found and the current workload."""
        version = selectors.version_get(actor=actor_of(request), version_id=version_id)
        return Response(VersionDetailSerializer(version, context={"request": request}).data)

    @extend_schema(
        parameters=[OpenApiParameter("packages", str, enum=["delete", "keep"], description="delete unless said")],
        responses={204: None},
    )
    def delete(self, request: Any, version_id: uuid.UUID) -> Response:
        """Delete its file and the packages that its runs made of it. Refused while a run of it is queued or at work."""
        actor = actor_of(request)
        with_packages = request.query_params.get("packages", "delete")
        if with_packages not in ("delete", "keep"):
            raise PlatformError("core:usage:invalid", text="packages is `delete` or `keep`")
        version = selectors.version_get(actor=actor, version_id=version_id)
        version_delete(actor=actor, version=version, with_packages=with_packages == "delete")
        return Response(status=status.HTTP_204_NO_CONTENT)
