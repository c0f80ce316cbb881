"""How a worker proves that it is one of this installation's: by FUSEWORKS_WORKER_TOKEN, which web and workers share."""

from __future__ import annotations

import hmac
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from rest_framework import serializers
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.views import APIView

from fuseworks.accounts.authentication import bearer
from fuseworks.core.errors import PlatformError
from fuseworks.core.parsers import BoundedJSONParser
from fuseworks.fleet import errors as _errors  # noqa: F401  its ids must be in the catalogue

FLEET = "fleet"


class WorkerTokenAuthentication(BaseAuthentication):
    """`request.auth` is the word `fleet`; the user stays anonymous. An installation without a token admits nobody."""

    def authenticate(self, request: Any) -> tuple[AnonymousUser, str] | None:
        token = bearer(request)
        if token is None:
            return None
        if not settings.WORKER_TOKEN:
            raise PlatformError("fleet:usage:no-worker-token")
        if not hmac.compare_digest(token.encode(), settings.WORKER_TOKEN.encode()):
            raise AuthenticationFailed("this is not the worker token of this site")
        return AnonymousUser(), FLEET

    def authenticate_header(self, request: Any) -> str:
        return "Bearer"


class IsWorker(BasePermission):
    def has_permission(self, request: Any, view: Any) -> bool:
        return bool(request.auth == FLEET)


class NameBody(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=200)


class FleetView(APIView):
    authentication_classes = (WorkerTokenAuthentication,)
    permission_classes = (IsWorker,)
    parser_classes = (BoundedJSONParser,)
    max_body_bytes = 4 << 20

    def body(self, request: Any, schema: type[serializers.Serializer[Any]]) -> dict[str, Any]:
        given = schema(data=request.data)
        given.is_valid(raise_exception=True)
        return dict(given.validated_data)
