"""What a person changes of himself, and the notes on passwords. Passwords are set by Django's own forms."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from fuseworks.accounts.models import ApiToken, AuditEntry, User
from fuseworks.accounts.permissions import Actor, audit

RESET_REQUESTS_AN_HOUR = 5
RESET_REQUESTED = "password.ask_reset"


@transaction.atomic
def profile_change(*, actor: Actor, name: str, language: str) -> User:
    user = User.objects.select_for_update().get(pk=actor.user.pk)
    user.name, user.language = name, language
    user.save(update_fields=["name", "language"])
    return user


@transaction.atomic
def note_password_change(*, actor: Actor, how: str, revoke_tokens: bool) -> None:
    """`how`: `change` by who knew the old one, `reset` by a link. Ends the user's API tokens too when asked."""
    audit(actor, f"password.{how}", team=None, tokens_revoked=revoke_tokens)
    if revoke_tokens:
        tokens_revoke_all(user=actor.user)


def tokens_revoke_all(*, user: User) -> int:
    return ApiToken.objects.filter(user=user, revoked_at=None).update(revoked_at=timezone.now())


@transaction.atomic
def note_reset_request(*, actor: Actor) -> bool:
    """Whether a mail may go out: a form that anybody may send must not fill somebody's mailbox."""
    User.objects.select_for_update().get(pk=actor.user.pk)
    recent = AuditEntry.objects.filter(
        actor=actor.user, action=RESET_REQUESTED, created_at__gt=timezone.now() - timedelta(hours=1)
    )
    if recent.count() >= RESET_REQUESTS_AN_HOUR:
        return False
    audit(actor, RESET_REQUESTED, team=None)
    return True
