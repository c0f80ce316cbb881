"""Roles of members, and their leaving. A team always keeps an owner who can sign in."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from fuseworks.accounts.models import ApiToken, Invitation, Membership, Role, Team, User
from fuseworks.accounts.permissions import MANAGE, RANK, READ, Actor, audit, require
from fuseworks.core.errors import PlatformError


@transaction.atomic
def member_role_change(*, actor: Actor, membership: Membership, role: str) -> Membership:
    """Owners only. Raises PlatformError for a role above the actor's own, and when no owner would be left."""
    team = team_locked(membership.team)
    require(actor, team, MANAGE)
    require_grantable(actor, team, role)
    membership = _current(membership)
    before = membership.role
    if before == role:
        return membership
    if before == Role.OWNER:
        _require_another_owner(team, membership)
        _revoke_invitations_of(team, membership.user)
    membership.role = role
    membership.save(update_fields=["role", "updated_at"])
    audit(
        actor, "member.change_role", team=team, target=membership, email=membership.user.email, before=before, to=role
    )
    return membership


@transaction.atomic
def member_remove(*, actor: Actor, membership: Membership) -> None:
    """Owners remove members; everybody may remove himself. His tokens of this team end, and his open invitations."""
    team = team_locked(membership.team)
    themself = membership.user_id == actor.user.pk
    require(actor, team, READ if themself and actor.token is None else MANAGE)
    membership = _current(membership)
    if membership.role == Role.OWNER:
        _require_another_owner(team, membership)
    action = "member.leave" if themself else "member.remove"
    audit(actor, action, team=team, target=membership, email=membership.user.email, role=membership.role)
    _revoke_invitations_of(team, membership.user)
    ApiToken.objects.filter(user=membership.user, team=team, revoked_at=None).update(revoked_at=timezone.now())
    membership.delete()


def team_leave(*, actor: Actor, team: Team) -> None:
    membership = Membership.objects.visible_to(actor).filter(user=actor.user, team=team).first()
    if membership is None:
        raise PlatformError("core:usage:not-found", what="team")
    member_remove(actor=actor, membership=membership)


def team_locked(team: Team) -> Team:
    """The team's row, locked: two changes at once could each see the other's owner and leave none."""
    return Team.objects.select_for_update().get(pk=team.pk)


def require_grantable(actor: Actor, team: Team, role: str) -> None:
    """Nobody gives a role above his own."""
    own = Role(Membership.objects.get(user=actor.user, team=team).role)
    if RANK[Role(role)] > RANK[own]:
        raise PlatformError("accounts:usage:role-above-own", role=role, own=str(own))


def _current(membership: Membership) -> Membership:
    """As it is now that the team is locked. Raises PlatformError when it is gone meanwhile."""
    found = Membership.objects.select_related("user").filter(pk=membership.pk).first()
    if found is None:
        raise PlatformError("core:usage:not-found", what="member")
    return found


def _require_another_owner(team: Team, membership: Membership) -> None:
    others = team.memberships.filter(role=Role.OWNER, user__is_active=True).exclude(pk=membership.pk)
    if not others.exists():
        raise PlatformError("accounts:usage:last-owner", team=team.name)


def _revoke_invitations_of(team: Team, user: User) -> None:
    """A link that somebody made for himself must not bring him back."""
    made = Invitation.objects.filter(team=team, invited_by=user, accepted_at=None, revoked_at=None)
    made.update(revoked_at=timezone.now())
