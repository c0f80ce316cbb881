"""Requests that start something, sent twice: with the header `Idempotency-Key` the second finds what the first made.

For endpoints whose work is one short transaction. Not for bodies that are files: an upload is known by its offset, a
version by its bytes.

A key belongs to whoever sent it (a token, or the session of a user) and is kept for KEPT_FOR; `clean` removes it then.
A request that was refused leaves no key: sent again, it is tried again.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from django.db import models, transaction
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework import status

from fuseworks.accounts.models import IdempotencyKey
from fuseworks.accounts.permissions import Actor
from fuseworks.core.errors import PlatformError

HEADER = "Idempotency-Key"
KEPT_FOR = timedelta(hours=24)
LONGEST = 200
Made = TypeVar("Made", bound=models.Model)

KEY = OpenApiParameter(
    HEADER,
    str,
    OpenApiParameter.HEADER,
    description="Drawn by the caller, a UUID say. The same key with the same request, by the same token or session and "
    f"within {KEPT_FOR // timedelta(hours=1)} hours, starts nothing again: 200 with what the first one made, as it "
    f"is now. With another request: 422 (`accounts:usage:key-reused`). 1 to {LONGEST} visible ASCII characters.",
)


@dataclass(frozen=True)
class Once(Generic[Made]):
    row: Made
    is_new: bool

    @property
    def status(self) -> int:
        return status.HTTP_201_CREATED if self.is_new else status.HTTP_200_OK


def answers(shown: Any) -> dict[int, OpenApiResponse]:
    """What an endpoint that takes a key answers, for the API's description."""
    return {
        201: OpenApiResponse(shown, description="It was made"),
        200: OpenApiResponse(shown, description=f"It was made before, by a request with this {HEADER}"),
    }


def once(request: Any, *, actor: Actor, make: Callable[[], Made], find: Callable[[uuid.UUID], Made]) -> Once[Made]:
    """What `make` makes; what it made for this key before, by `find`, which sees only what the actor may still see.

    Of two at once the second waits for the first one's end. Raises PlatformError: `accounts:usage:key-reused`,
    `core:usage:invalid` for a key that is none, and what `make` and `find` raise.
    """
    key = request.headers.get(HEADER)
    if key is None:
        return Once(make(), is_new=True)
    if not (0 < len(key) <= LONGEST and key.isascii() and key.isprintable()):
        text = f"the header {HEADER} has 1 to {LONGEST} visible ASCII characters"
        raise PlatformError("core:usage:invalid", place=HEADER, text=text)
    with transaction.atomic():
        claimed, is_new = _claim(actor, key, _digest(request))
        if is_new:
            row = make()
            IdempotencyKey.objects.filter(pk=claimed.pk).update(made=row.pk)
            return Once(row, is_new=True)
    assert claimed.made is not None  # its transaction made something, or left no key
    return Once(find(claimed.made), is_new=False)


def expired_keys(now: datetime) -> models.QuerySet[IdempotencyKey]:
    return IdempotencyKey.objects.filter(created_at__lt=now - KEPT_FOR)


def _claim(actor: Actor, key: str, digest: str) -> tuple[IdempotencyKey, bool]:
    mine = IdempotencyKey(user=actor.user, token=actor.token, key=key, request_sha256=digest)
    same = IdempotencyKey.objects.filter(user=actor.user, token=actor.token, key=key)
    (same & expired_keys(timezone.now())).delete()
    # ON CONFLICT DO NOTHING waits for a transaction that has put in the same key, until it is known how that ends.
    IdempotencyKey.objects.bulk_create([mine], ignore_conflicts=True)
    kept = same.get()
    if kept.request_sha256 != digest:
        raise PlatformError("accounts:usage:key-reused", place=HEADER, key=key)
    return kept, kept.pk == mine.pk


def _digest(request: Any) -> str:
    asked = [request.method, request.path, request.data]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
