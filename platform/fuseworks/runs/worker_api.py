"""What the worker's endpoints share: who may call them, how much they read, and which attempt is meant.

A worker proves itself by the token of one attempt, which is no user's: `request.user` stays anonymous and
`request.auth` is the Attempt. An expired attempt's token is still known, so that its worker learns that it is stale.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib.auth.models import AnonymousUser
from rest_framework import serializers
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.views import APIView

from fuseworks.accounts.authentication import bearer, token_sha256
from fuseworks.core.errors import PlatformError
from fuseworks.core.parsers import BoundedJSONParser
from fuseworks.runs import scrub
from fuseworks.runs.models import Attempt


class AttemptAuthentication(BaseAuthentication):
    """The token is looked up by its digest: nothing about it can be learned from the time that takes."""

    def authenticate(self, request: Any) -> tuple[AnonymousUser, Attempt] | None:
        token = bearer(request)
        if token is None:
            return None
        attempt = Attempt.objects.select_related("run").filter(token_sha256=token_sha256(token)).first()
        if attempt is None:
            raise AuthenticationFailed("this is no attempt's token")
        return AnonymousUser(), attempt

    def authenticate_header(self, request: Any) -> str:
        return "Bearer"


class HasAttempt(BasePermission):
    def has_permission(self, request: Any, view: Any) -> bool:
        return isinstance(request.auth, Attempt)


class Text(serializers.Field[str, Any, str, Any]):
    """A text that may quote strangers' code: made storable and cut, never refused for what is in it."""

    def __init__(self, *, max_length: int, **options: Any) -> None:
        super().__init__(**options)
        self.max_length = max_length

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            raise serializers.ValidationError("a text")
        return scrub.text(data, self.max_length)

    def to_representation(self, value: str) -> str:
        return value


class AttemptBody(serializers.Serializer[Any]):
    attempt = serializers.IntegerField(min_value=1, max_value=2**31 - 1)


class WorkerView(APIView):
    """Of one attempt at one run. Bodies are small unless `max_body_bytes` says otherwise."""

    authentication_classes = (AttemptAuthentication,)
    permission_classes = (HasAttempt,)
    parser_classes: Any = (BoundedJSONParser,)
    max_body_bytes = 64 << 10

    def attempt_of(self, request: Any, run_id: uuid.UUID, number: int) -> Attempt:
        """The token's attempt. Raises PlatformError: 404 when it is another run's, `runs:usage:stale` when the request
        names another attempt."""
        attempt: Attempt = request.auth
        if attempt.run_id != run_id:
            raise PlatformError("core:usage:not-found", what="run")
        if attempt.number != number:
            raise PlatformError("runs:usage:stale", attempt=number)
        return attempt

    def body(self, request: Any, schema: type[serializers.Serializer[Any]]) -> dict[str, Any]:
        given = schema(data=request.data)
        given.is_valid(raise_exception=True)
        return dict(given.validated_data)
