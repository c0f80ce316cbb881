"""API tokens: `Authorization: Bearer fw_...`."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

from django.db.models import Q
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import SAFE_METHODS

from fuseworks.accounts.models import ApiToken, Scope, User
from fuseworks.core.errors import PlatformError

SCHEME = b"bearer"
# `last_used_at` is for people: a write with every request would cost more than it tells.
USE_NOTED_EVERY = timedelta(minutes=1)


def token_sha256(token: str) -> str:
    """What is stored of a token. It is long and random, so a plain digest suffices."""
    return hashlib.sha256(token.encode()).hexdigest()


def bearer(request: Any) -> str | None:
    """The token of the Authorization header; None without one of this scheme. Raises AuthenticationFailed for a header
    of this scheme that holds no token, or more than one word."""
    parts = get_authorization_header(request).split()
    if not parts or parts[0].lower() != SCHEME:
        return None
    if len(parts) != 2:
        raise AuthenticationFailed("the header reads: Authorization: Bearer TOKEN")
    token: str = parts[1].decode("latin-1")
    return token


class BadToken(AuthenticationFailed):
    default_code = "accounts:usage:bad-token"


class BearerAuthentication(BaseAuthentication):
    """Sets `request.auth` to the ApiToken. A token that is wrong, expired or revoked is refused alike.

    Reading needs the scope `read` everywhere, so it is asked for here; other scopes are asked for by what they allow.
    """

    def authenticate(self, request: Any) -> tuple[User, ApiToken] | None:
        given = bearer(request)
        if given is None:
            return None
        now = timezone.now()
        token = (
            ApiToken.objects.select_related("user")
            .filter(Q(expires_at=None) | Q(expires_at__gt=now), revoked_at=None, user__is_active=True)
            .filter(token_sha256=token_sha256(given))
            .first()
        )
        if token is None:
            raise BadToken
        if request.method in SAFE_METHODS and Scope.READ not in token.scopes:
            raise PlatformError("core:usage:token-scope", scope=str(Scope.READ))
        if token.last_used_at is None or now - token.last_used_at >= USE_NOTED_EVERY:
            ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
        return token.user, token

    def authenticate_header(self, request: Any) -> str:
        return "Bearer"
