"""New teams, and new names of teams. Who owns a team of a business unit may make another one there; first ones come by
`create_owner`."""

from __future__ import annotations

import secrets

from django.db import transaction
from django.db.models import QuerySet
from django.utils.text import slugify

from fuseworks.accounts.models import BusinessUnit, Membership, Role, Team, User
from fuseworks.accounts.permissions import MANAGE, Actor, audit, require
from fuseworks.accounts.selectors import units_to_found_in
from fuseworks.core.errors import PlatformError

MAX_SLUG_CHARACTERS = 60


@transaction.atomic
def team_create(*, actor: Actor, business_unit: BusinessUnit, name: str) -> Team:
    """The actor becomes its owner. Raises PlatformError."""
    if not units_to_found_in(actor=actor).filter(pk=business_unit.pk).exists():
        raise PlatformError("accounts:usage:no-unit-to-found-in", unit=business_unit.name)
    if actor.token is not None and actor.token.team_id is not None:
        # A token that is good in one team would make a team in which it is not.
        raise PlatformError("core:usage:refused", text="this API token is good in one team only")
    team = team_found(business_unit=business_unit, name=name, owner=actor.user)
    audit(actor, "team.create", team=team, target=team, name=team.name)
    return team


def team_found(*, business_unit: BusinessUnit, name: str, owner: User) -> Team:
    """The team and its first owner; asks for no right. Raises PlatformError when the unit has one of this name."""
    _require_free_name(business_unit, name, Team.objects.all())
    team = Team.objects.create(business_unit=business_unit, name=name, slug=free_slug(name, Team))
    Membership.objects.create(user=owner, team=team, role=Role.OWNER)
    return team


@transaction.atomic
def team_rename(*, actor: Actor, team: Team, name: str) -> Team:
    """Owners only. Its slug stays: it stands in addresses and in pipelines. Raises PlatformError."""
    require(actor, team, MANAGE)
    _require_free_name(team.business_unit, name, Team.objects.exclude(pk=team.pk))
    team = Team.objects.select_for_update(of=("self",)).select_related("business_unit").get(pk=team.pk)
    before = team.name
    if before != name:
        team.name = name
        team.save(update_fields=["name", "updated_at"])
        audit(actor, "team.rename", team=team, target=team, before=before, to=name)
    return team


def _require_free_name(unit: BusinessUnit, name: str, others: QuerySet[Team]) -> None:
    """The unit is locked: two at once must not both find the name free."""
    BusinessUnit.objects.select_for_update().get(pk=unit.pk)
    if others.filter(business_unit=unit, name__iexact=name).exists():
        raise PlatformError("accounts:usage:team-name-taken", unit=unit.name, name=name)


def free_slug(name: str, model: type[Team] | type[BusinessUnit]) -> str:
    """Out of the name. Where that is taken (perhaps by what the reader may not see) or empty, with random letters."""
    base = slugify(name)[: MAX_SLUG_CHARACTERS - 7].strip("-_") or "team"
    slug = base if slugify(name) else f"{base}-{secrets.token_hex(3)}"
    while model.objects.filter(slug=slug).exists():
        slug = f"{base}-{secrets.token_hex(3)}"
    return slug
