"""What the accounts app shows: teams, members, invitations, tokens. Each begins with what the actor may see."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Case, Count, IntegerField, Q, QuerySet, Value, When
from django.utils import timezone

from fuseworks.accounts.models import ApiToken, BusinessUnit, Invitation, Membership, Role, Team
from fuseworks.accounts.permissions import MANAGE, RANK, READ, Actor, require, teams_where
from fuseworks.core.errors import PlatformError
from fuseworks.core.lookup import get_or_404


@dataclass(frozen=True)
class UnitTeams:
    """A business unit and the actor's memberships in it, each with its team and `member_count`."""

    unit: BusinessUnit
    memberships: list[Membership]


def teams(*, actor: Actor) -> QuerySet[Team]:
    """The actor's teams."""
    return teams_where(actor, READ).select_related("business_unit").order_by("business_unit__name", "name")


def team(*, actor: Actor, slug: str) -> Team:
    """Raises PlatformError (404)."""
    return get_or_404(teams(actor=actor), what="team", slug=slug)


def own_memberships(*, actor: Actor) -> QuerySet[Membership]:
    """The actor's memberships, with team, business unit and `member_count`."""
    mine: QuerySet[Membership] = Membership.objects.visible_to(actor).filter(user=actor.user)
    return (
        mine.select_related("team__business_unit")
        .annotate(member_count=Count("team__memberships"))
        .order_by("team__business_unit__name", "team__name")
    )


def own_teams_by_unit(*, actor: Actor) -> list[UnitTeams]:
    by_unit: dict[BusinessUnit, list[Membership]] = {}
    for membership in own_memberships(actor=actor):
        by_unit.setdefault(membership.team.business_unit, []).append(membership)
    return [UnitTeams(unit, memberships) for unit, memberships in by_unit.items()]


def role_in(*, actor: Actor, team: Team) -> Role:
    """Raises PlatformError (404) for a team that the actor does not see."""
    mine = Membership.objects.visible_to(actor).filter(user=actor.user)
    return Role(get_or_404(mine, what="team", team=team).role)


def business_units(*, actor: Actor) -> QuerySet[BusinessUnit]:
    """Those of the actor's teams."""
    return BusinessUnit.objects.filter(teams__in=teams_where(actor, READ)).distinct().order_by("name")


def units_to_found_in(*, actor: Actor) -> QuerySet[BusinessUnit]:
    """Those in which the actor may make teams: he owns one there."""
    return BusinessUnit.objects.filter(teams__in=teams_where(actor, MANAGE)).distinct().order_by("name")


def members(*, actor: Actor, team: Team) -> QuerySet[Membership]:
    """Owners first, then by name."""
    found: QuerySet[Membership] = Membership.objects.visible_to(actor).filter(team=team).select_related("user")
    rank = Case(*(When(role=role, then=Value(place)) for role, place in RANK.items()), output_field=IntegerField())
    return found.annotate(rank=rank).order_by("-rank", "user__name", "user__email")


def open_invitations(*, actor: Actor, team: Team) -> QuerySet[Invitation]:
    """Those that somebody may still accept. Owners only: raises PlatformError otherwise."""
    require(actor, team, MANAGE)
    found: QuerySet[Invitation] = Invitation.objects.visible_to(actor).filter(still_open(), team=team)
    return found.select_related("invited_by").order_by("-created_at")


def still_open() -> Q:
    return Q(accepted_at=None, revoked_at=None, expires_at__gt=timezone.now())


def invitation_by_hash(*, sha256: str) -> Invitation:
    """The open invitation of this link's hash: who holds the link is not asked for more. Raises PlatformError."""
    found = (
        Invitation.objects.filter(still_open(), token_sha256=sha256)
        .select_related("team__business_unit", "invited_by")
        .first()
    )
    if found is None:
        raise PlatformError("accounts:usage:invitation-over")
    return found


def teams_by_unit() -> QuerySet[Team]:
    """All of the installation: for its operators only, who ask `permissions.require_operator` first."""
    return Team.objects.select_related("business_unit").order_by("business_unit__name", "name")


def tokens(*, actor: Actor) -> QuerySet[ApiToken]:
    """The user's tokens that are not revoked, expired ones too. A token sees itself only: it may be good in one team
    while the names of others tell of more."""
    found = ApiToken.objects.filter(user=actor.user, revoked_at=None).select_related("team").order_by("-created_at")
    return found if actor.token is None else found.filter(pk=actor.token.pk)
