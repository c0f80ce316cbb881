"""`uploads/<uuid>/`: the core of the tus protocol. HEAD tells the offset, PATCH appends there, DELETE cancels.

curl -I $API/uploads/$ID/                                                      # Upload-Offset: 1048576
tail -c +1048577 model.pt2 | head -c 16777216 |
  curl -X PATCH -H "Upload-Offset: 1048576" --data-binary @- $API/uploads/$ID/   # 204 or, at the end, 200
"""

from __future__ import annotations

import uuid
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import status
from rest_framework.response import Response
from rest_framework.views import APIView

from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint
from fuseworks.registry import selectors
from fuseworks.registry.api.bodies import body_length, body_of, checksum_header, offset_header
from fuseworks.registry.api.serializers import UploadSerializer
from fuseworks.registry.models import Upload
from fuseworks.registry.services import upload_append, upload_cancel

BODY = {"application/offset+octet-stream": OpenApiTypes.BINARY, "application/octet-stream": OpenApiTypes.BINARY}
OFFSET = OpenApiParameter("Upload-Offset", int, OpenApiParameter.HEADER, required=True)
CHECKSUM = OpenApiParameter("Upload-Checksum", str, OpenApiParameter.HEADER, description="sha256 BASE64, of this piece")


@endpoint("uploads/<uuid:upload_id>/", name="upload-detail")
class UploadDetail(APIView):
    @extend_schema(responses=UploadSerializer)
    def get(self, request: Any, upload_id: uuid.UUID) -> Response:
        """Where an upload stands. HEAD answers the headers Upload-Offset and Upload-Length alone."""
        upload = selectors.upload_get(actor=actor_of(request), upload_id=upload_id)
        shown = UploadSerializer(upload, context={"request": request}).data
        return Response(shown, headers=_headers(upload, shown["offset_bytes"]))

    @extend_schema(
        request=BODY,
        parameters=[OFFSET, CHECKSUM],
        responses={
            204: OpenApiResponse(description="Appended; the header Upload-Offset tells where to go on"),
            200: OpenApiResponse(UploadSerializer, description="That was the last byte: `version` is made"),
        },
    )
    def patch(self, request: Any, upload_id: uuid.UUID) -> Response:
        """Append the body. 409 tells the offset that is right, 423 that another request is writing. The piece with the
        last byte, sent again, is answered alike: the offset does what an Idempotency-Key does elsewhere."""
        actor = actor_of(request)
        upload = selectors.upload_get(actor=actor, upload_id=upload_id)
        offset = upload_append(
            actor=actor,
            upload=upload,
            offset=offset_header(request),
            stream=body_of(request),
            length_bytes=body_length(request),
            sha256=checksum_header(request),
        )
        if upload.version is None:
            return Response(status=status.HTTP_204_NO_CONTENT, headers=_headers(upload, offset))
        shown = UploadSerializer(upload, context={"request": request}).data
        return Response(shown, headers=_headers(upload, offset))

    @extend_schema(responses={204: None})
    def delete(self, request: Any, upload_id: uuid.UUID) -> Response:
        """Cancel it; what has arrived is thrown away."""
        actor = actor_of(request)
        upload_cancel(actor=actor, upload=selectors.upload_get(actor=actor, upload_id=upload_id))
        return Response(status=status.HTTP_204_NO_CONTENT)


def _headers(upload: Upload, offset_bytes: int) -> dict[str, str]:
    return {
        "Tus-Resumable": "1.0.0",
        "Upload-Offset": str(offset_bytes),
        "Upload-Length": str(upload.length_bytes),
        "Cache-Control": "no-store",
    }
