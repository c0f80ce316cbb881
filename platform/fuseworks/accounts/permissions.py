"""Who may do what: one table of actions, and the questions that services and selectors ask of it.

An object of a team in which the actor may not read does not exist for him: 404. One that he may read and not change
is a 403 that names his role and the one needed.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from fuseworks.accounts.models import ApiToken, AuditEntry, Membership, Role, Scope, Team, User
from fuseworks.core.errors import PlatformError

RANK = {role: rank for rank, role in enumerate(Role)}


@dataclass(frozen=True)
class Action:
    """Needs at least `role` in the team and, when it comes by a token, `scope`."""

    name: str
    role: Role
    scope: Scope


READ = Action("read", Role.VIEWER, Scope.READ)
UPLOAD = Action("upload", Role.MEMBER, Scope.SUBMIT)
RUN = Action("run", Role.MEMBER, Scope.SUBMIT)
DELETE = Action("delete", Role.MAINTAINER, Scope.SUBMIT)
SAVE_RECIPE = Action("save_recipe", Role.MEMBER, Scope.RECIPES)
PUBLISH_RECIPE = Action("publish_recipe", Role.MAINTAINER, Scope.RECIPES)  # to the team or its business unit
PUBLISH_COMPANY = Action("publish_company", Role.OWNER, Scope.RECIPES)
MANAGE = Action("manage", Role.OWNER, Scope.MANAGE)


@dataclass(frozen=True)
class Actor:
    """Who asks: a user, by a session or by a token of his. `address`: from where, for the audit log."""

    user: User
    token: ApiToken | None = None
    address: str | None = None


def actor_of(request: Any) -> Actor:
    """Raises PlatformError (`core:usage:unauthenticated`) for a stranger."""
    if not request.user.is_authenticated:
        raise PlatformError("core:usage:unauthenticated")
    token = getattr(request, "auth", None)
    return Actor(request.user, token if isinstance(token, ApiToken) else None, address_of(request))


def address_of(request: Any) -> str | None:
    """The caller's IP address; None where the server knows none, as behind a Unix socket."""
    address = request.META.get("REMOTE_ADDR", "")
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return None


def teams_where(actor: Actor, action: Action) -> QuerySet[Team]:
    """The teams in which the actor may do `action`."""
    if actor.token is not None and action.scope not in actor.token.scopes:
        return Team.objects.none()
    roles = [role for role in Role if RANK[role] >= RANK[action.role]]
    teams = Team.objects.filter(memberships__user=actor.user, memberships__role__in=roles)
    if actor.token is not None and actor.token.team_id is not None:
        teams = teams.filter(pk=actor.token.team_id)
    return teams


def may(actor: Actor, team: Team, action: Action) -> bool:
    return teams_where(actor, action).filter(pk=team.pk).exists()


def require(actor: Actor, team: Team, action: Action) -> None:
    """Raises PlatformError: 404 when the actor may not even read in the team, 403 when only this action is refused."""
    if may(actor, team, action):
        return
    token = actor.token
    if (
        token is not None
        and action.scope not in token.scopes
        and token.team_id in (None, team.pk)  # of another team it must not even learn that it is there
        and may(Actor(actor.user), team, READ)
    ):
        raise PlatformError("core:usage:token-scope", scope=str(action.scope))
    if not may(actor, team, READ):
        raise PlatformError("core:usage:not-found", what="team")
    role = Membership.objects.get(user=actor.user, team=team).role
    raise PlatformError("core:usage:forbidden", team=team.name, role=role, needed=str(action.role))


def is_operator(actor: Actor) -> bool:
    """Of this installation; by a token, one that is good in all teams and may manage."""
    token = actor.token
    allowed = token is None or (token.team_id is None and Scope.MANAGE in token.scopes)
    return allowed and actor.user.is_staff


def require_operator(actor: Actor) -> None:
    """Raises PlatformError (403): that there are quotas is no secret, so it is not a 404."""
    if not is_operator(actor):
        raise PlatformError("accounts:usage:operators-only")


def audit(actor: Actor | None, action: str, *, team: Team | None, target: Any = None, **detail: Any) -> AuditEntry:
    """Notes what a service does, in its transaction. `actor` None: a command on the server."""
    return AuditEntry.objects.create(
        actor=actor.user if actor is not None else None,
        team=team,
        action=action,
        object_type=target._meta.label_lower if target is not None else "",
        object_id=target.pk if target is not None and not isinstance(target, User) else None,
        address=actor.address if actor is not None else None,
        detail=detail,
    )
