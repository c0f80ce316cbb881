"""Closing an account, for ever: by its owner, or by `manage.py close_account` when she is no longer there to do it.

What she made stays and is shown as made by a closed account. Nothing of the person is kept in the account itself, so
that her address may be invited again; the new account inherits nothing. The teams' audit logs keep who she was.
"""

from __future__ import annotations

from django.contrib.auth.hashers import make_password
from django.db import transaction
from django.utils import timezone

from fuseworks.accounts.models import Invitation, Membership, Role, Team, User
from fuseworks.accounts.permissions import Actor, audit
from fuseworks.accounts.services.people import tokens_revoke_all
from fuseworks.core.errors import PlatformError

NOWHERE = "closed.invalid"  # a domain that can never be (RFC 2606)


def account_close(*, actor: Actor, password: str) -> None:
    """One's own, by the password. Raises PlatformError: `wrong-password`, `last-owner-of`; 403 by a token."""
    if actor.token is not None:
        raise PlatformError("core:usage:refused", text="no API token closes an account")
    if not actor.user.check_password(password):
        raise PlatformError("accounts:usage:wrong-password", place="password")
    _close(actor, actor.user)


def account_close_by_operator(*, email: str) -> None:
    """By the command on the server. Raises PlatformError: `no-account`, `last-owner-of`."""
    user = User.objects.filter(email__iexact=email.strip(), closed_at=None).first()
    if user is None:
        raise PlatformError("accounts:usage:no-account", email=email.strip().lower())
    _close(None, user)


def teams_without_another_owner(user: User) -> list[Team]:
    """Those that nobody who can sign in would own any more: they stand in the way of closing the account."""
    owned = Team.objects.filter(memberships__user=user, memberships__role=Role.OWNER)
    others = Membership.objects.filter(role=Role.OWNER, user__is_active=True).exclude(user=user)
    return list(owned.exclude(memberships__in=others).order_by("name"))


@transaction.atomic
def _close(actor: Actor | None, user: User) -> None:
    # Teams first and in one order: two owners who close at once must neither wait for each other nor both get out.
    teams = list(Team.objects.select_for_update().filter(memberships__user=user).order_by("pk"))
    user = User.objects.select_for_update().get(pk=user.pk)
    left = teams_without_another_owner(user)
    if left:
        named = ", ".join(team.name for team in left)
        raise PlatformError("accounts:usage:last-owner-of", teams=named, extra={"teams": [team.slug for team in left]})
    email, now = user.email, timezone.now()
    Invitation.objects.filter(invited_by=user, accepted_at=None, revoked_at=None).update(revoked_at=now)
    tokens_revoke_all(user=user)
    Membership.objects.filter(user=user).delete()
    for team in teams:
        audit(actor, "account.close", team=team, email=email)
    audit(actor, "account.close", team=None)
    user.closed_at, user.is_active, user.is_staff, user.is_superuser = now, False, False, False
    user.email, user.name, user.language = f"{user.pk}@{NOWHERE}", "", ""
    user.password = make_password(None)  # ends every session: each carries a hash of it
    user.save()
