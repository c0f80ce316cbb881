"""`uploads/<team>/<model>/<file>`: a whole file in one request, made for curl, which adds the file's name by itself:

    curl -T examples/din.py -H "Authorization: Bearer $TOKEN" $API/uploads/ads-ranking/din/
    curl -X PUT --data-binary @din.py -H "Authorization: Bearer $TOKEN" $API/uploads/ads-ranking/din/din.py

The first reads the file in pieces, the second into memory. `?sha256=...` refuses other bytes. What breaks off has to be
sent again from the start: `uploads/` is for large files and bad lines.
"""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.response import Response
from rest_framework.views import APIView

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint
from fuseworks.core.problems import CONTENT_TYPE
from fuseworks.registry import selectors
from fuseworks.registry.api.bodies import body_length, body_of
from fuseworks.registry.api.serializers import VersionDetailSerializer
from fuseworks.registry.services import upload_whole

BODY = {"application/octet-stream": OpenApiTypes.BINARY}
SHA256 = OpenApiParameter("sha256", str, description="64 hexadecimal digits; other bytes are refused")


class SameBytesSerializer(serializers.Serializer[Any]):
    """An error with the version that there is (`registry:usage:same-bytes`)."""

    id = serializers.CharField()
    detail = serializers.CharField()
    remedy = serializers.CharField()
    version = serializers.UUIDField()
    address = serializers.CharField(help_text="of its page")


@endpoint("uploads/<slug:team>/<str:model_name>/<str:filename>", name="upload-file")
class UploadFile(APIView):
    @extend_schema(
        request=BODY,
        parameters=[SHA256],
        responses={
            201: VersionDetailSerializer,
            (409, CONTENT_TYPE): OpenApiResponse(
                SameBytesSerializer, description="These very bytes are a version already: `version` is its id"
            ),
        },
    )
    def put(self, request: Any, team: str, model_name: str, filename: str) -> Response:
        """Upload a file in one request as a new version of the team's model, which is made when there is none. Needs no
        Idempotency-Key: the same bytes are never a second version. What can be refused is, before the body is read."""
        actor = actor_of(request)
        version = upload_whole(
            actor=actor,
            team=selectors.team_of(actor=actor, slug=team),
            filename=filename,
            stream=body_of(request),
            length_bytes=body_length(request),
            model_name=model_name,
            expected_sha256=request.query_params.get("sha256", ""),
        )
        shown = VersionDetailSerializer(version, context={"request": request}).data
        return Response(shown, status=status.HTTP_201_CREATED, headers={"Location": shown["page"]})
