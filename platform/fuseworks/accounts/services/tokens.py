"""API tokens: made and seen once. Only a person who is signed in makes one: a leaked token must not make another."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from fuseworks.accounts import keys
from fuseworks.accounts.models import ApiToken, Scope, Team, User
from fuseworks.accounts.permissions import READ, Actor, audit, require
from fuseworks.accounts.selectors import tokens
from fuseworks.core.errors import PlatformError
from fuseworks.core.lookup import get_or_404


@dataclass(frozen=True)
class Issued:
    """`token` is told once."""

    row: ApiToken
    token: str

    def __repr__(self) -> str:
        return f"Issued({self.row!r})"


@transaction.atomic
def token_create(
    *, actor: Actor, name: str, team: Team | None, scopes: Iterable[str], expires_in_days: int | None
) -> Issued:
    """`team` None: good in all of the user's teams. The scope `read` is always in. Raises PlatformError."""
    if actor.token is not None:
        raise PlatformError("accounts:usage:session-only")
    if team is not None:
        require(actor, team, READ)
    User.objects.select_for_update().get(pk=actor.user.pk)  # two requests at once must not make two of one name
    if ApiToken.objects.filter(user=actor.user, revoked_at=None, name__iexact=name).exists():
        raise PlatformError("accounts:usage:token-name-taken", name=name)
    wanted = {Scope.READ, *(Scope(scope) for scope in scopes)}
    key = keys.draw_token()
    row = ApiToken.objects.create(
        user=actor.user,
        team=team,
        name=name,
        prefix=key.prefix,
        token_sha256=key.sha256,
        scopes=[scope.value for scope in Scope if scope in wanted],
        expires_at=None if expires_in_days is None else timezone.now() + timedelta(days=expires_in_days),
    )
    audit(actor, "token.create", team=team, target=row, name=name, prefix=row.prefix, scopes=", ".join(row.scopes))
    return Issued(row, key.plain)


@transaction.atomic
def token_revoke(*, actor: Actor, token_id: uuid.UUID) -> None:
    """His own. A token may revoke itself and no other. Raises PlatformError (404)."""
    row = get_or_404(tokens(actor=actor), what="token", pk=token_id)
    row.revoked_at = timezone.now()
    row.save(update_fields=["revoked_at", "updated_at"])
    audit(actor, "token.revoke", team=row.team, target=row, name=row.name, prefix=row.prefix)
