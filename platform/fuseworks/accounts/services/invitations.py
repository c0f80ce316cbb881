"""Invitations by a link: made by owners, good once and for a week, for whoever holds the link.

A new account of the invited address is as good a proof of that address as the way by which the link went: by mail it is
proven; passed on by hand it is the owner's word, and the page on which he gets the link says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from fuseworks.accounts import keys, mail
from fuseworks.accounts.models import Invitation, Membership, Team, User
from fuseworks.accounts.permissions import MANAGE, Actor, audit, require
from fuseworks.accounts.selectors import still_open
from fuseworks.accounts.services.members import require_grantable, team_locked
from fuseworks.core.errors import PlatformError

GOOD_FOR = timedelta(days=7)
MAX_EMAIL_CHARACTERS = 254  # that of the column: Django's own form field takes 320, that of its API any
MAX_OPEN = 100  # of one team: a bound on the mail that one owner can make this site send


@dataclass(frozen=True)
class Invited:
    """`token` stands in the link and is told once."""

    invitation: Invitation
    token: str

    def __repr__(self) -> str:
        return f"Invited({self.invitation!r})"


@transaction.atomic
def invitation_create(*, actor: Actor, team: Team, email: str, role: str) -> Invited:
    """Owners only. Mails the link where a mail server is set; else the caller shows it, once. Raises PlatformError."""
    team = team_locked(team)
    require(actor, team, MANAGE)
    require_grantable(actor, team, role)
    email = email.strip().lower()
    if team.memberships.filter(user__email__iexact=email).exists():
        raise PlatformError("accounts:usage:already-member", email=email, team=team.name)
    waiting = Invitation.objects.filter(still_open(), team=team)
    if waiting.filter(email=email).exists():
        raise PlatformError("accounts:usage:already-invited", email=email, team=team.name)
    if waiting.count() >= MAX_OPEN:
        raise PlatformError("accounts:usage:too-many-invitations", team=team.name, limit=MAX_OPEN)
    key = keys.draw_link()
    invitation = Invitation.objects.create(
        team=team,
        email=email,
        role=role,
        token_sha256=key.sha256,
        invited_by=actor.user,
        expires_at=timezone.now() + GOOD_FOR,
    )
    audit(actor, "invitation.create", team=team, target=invitation, email=email, role=role)
    context = {"team": team.name, "role": role, "inviter": str(actor.user), "token": key.plain, "days": GOOD_FOR.days}
    transaction.on_commit(lambda: mail.send(to=email, template="accounts/mail/invitation", context=context))
    return Invited(invitation, key.plain)


@transaction.atomic
def invitation_revoke(*, actor: Actor, invitation: Invitation) -> None:
    """Owners only. One that is over already stays as it is."""
    require(actor, invitation.team, MANAGE)
    changed = Invitation.objects.filter(pk=invitation.pk, accepted_at=None, revoked_at=None).update(
        revoked_at=timezone.now()
    )
    if changed:
        audit(actor, "invitation.revoke", team=invitation.team, target=invitation, email=invitation.email)


@transaction.atomic
def invitation_accept(*, actor: Actor, invitation: Invitation) -> Membership:
    """Joins with the account that is signed in. Raises PlatformError when it is over, or he is in the team already."""
    invitation = _open_locked(invitation)
    if Membership.objects.filter(user=actor.user, team=invitation.team).exists():
        raise PlatformError("accounts:usage:already-member", email=actor.user.email, team=invitation.team.name)
    return _join(actor, invitation)


@transaction.atomic
def invitation_accept_as_new(
    *, invitation: Invitation, name: str, password: str, language: str = "", address: str | None = None
) -> Membership:
    """Makes the account of the invited address and joins with it. Raises PlatformError when there is one already, or
    the password is weak."""
    invitation = _open_locked(invitation)
    user = user_create(email=invitation.email, name=name, password=password, language=language)
    return _join(Actor(user, address=address), invitation)


def user_create(*, email: str, name: str, password: str, language: str = "") -> User:
    """Raises PlatformError (`account-exists`, `weak-password`)."""
    if User.objects.filter(email__iexact=email).exists():
        raise PlatformError("accounts:usage:account-exists", email=email)
    try:
        validate_password(password, User(email=email, name=name))
    except ValidationError as error:
        raise PlatformError("accounts:usage:weak-password", text=" ".join(error.messages)) from error
    return User.objects.create_user(email, password, name=name, language=language)


def _open_locked(invitation: Invitation) -> Invitation:
    """Locked, so that two who hold the link cannot both use it."""
    found = (
        Invitation.objects.select_for_update(of=("self",))
        .select_related("team")
        .filter(still_open(), pk=invitation.pk)
        .first()
    )
    if found is None:
        raise PlatformError("accounts:usage:invitation-over")
    return found


def _join(actor: Actor, invitation: Invitation) -> Membership:
    membership = Membership.objects.create(user=actor.user, team=invitation.team, role=invitation.role)
    invitation.accepted_at = timezone.now()
    invitation.save(update_fields=["accepted_at", "updated_at"])
    audit(
        actor,
        "invitation.accept",
        team=invitation.team,
        target=invitation,
        email=actor.user.email,
        invited=invitation.email,
        role=invitation.role,
    )
    return membership
