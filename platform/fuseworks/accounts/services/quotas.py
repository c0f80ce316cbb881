"""What a team may store. An operator of the installation sets it, by page, by the API or on the server: no owner of a
team, since the disk is everybody's."""

from __future__ import annotations

from django.db import transaction

from fuseworks.accounts.models import Team, User
from fuseworks.accounts.permissions import Actor, audit, require_operator
from fuseworks.accounts.services.members import team_locked
from fuseworks.core.errors import PlatformError


@transaction.atomic
def quota_change(*, actor: Actor | None, team: Team, quota_bytes: int | None) -> Team:
    """`quota_bytes` None: the site's default. Below what is stored already it deletes nothing: uploads are refused
    until there is room. `actor` None: the command on the server. Raises PlatformError (`operators-only`)."""
    if actor is not None:
        require_operator(actor)
    team = team_locked(team)
    before = team.quota_bytes
    if before != quota_bytes:
        team.quota_bytes = quota_bytes
        team.save(update_fields=["quota_bytes", "updated_at"])
        audit(actor, "team.change_quota", team=team, target=team, before_bytes=before, to_bytes=quota_bytes)
    return team


@transaction.atomic
def operator_appoint(*, email: str, operator: bool) -> User:
    """By the command on the server only: no page makes an operator. Raises PlatformError (`no-account`)."""
    user = open_account(email)
    if user.is_staff != operator:
        user.is_staff = operator
        user.save(update_fields=["is_staff"])
        audit(None, "operator.appoint" if operator else "operator.withdraw", team=None, email=user.email)
    return user


def open_account(email: str) -> User:
    """Locked. Raises PlatformError (`no-account`)."""
    email = email.strip().lower()
    user = User.objects.select_for_update().filter(email__iexact=email, closed_at=None).first()
    if user is None:
        raise PlatformError("accounts:usage:no-account", email=email)
    return user
