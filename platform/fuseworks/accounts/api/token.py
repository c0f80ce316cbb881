"""DELETE tokens/ID/: revokes one of the caller's tokens; by a token, itself."""

from __future__ import annotations

import uuid

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from fuseworks.accounts import services
from fuseworks.accounts.permissions import actor_of
from fuseworks.core.discovery import endpoint


@endpoint("tokens/<uuid:token_id>/", name="token")
class Token(APIView):
    @extend_schema(summary="Revoke an API token", responses={204: None})
    def delete(self, request: Request, token_id: uuid.UUID) -> Response:
        services.token_revoke(actor=actor_of(request), token_id=token_id)
        return Response(status=204)
