"""How the tables are written, and what a rule means for each actor.

An actor is a way to call: nobody (`stranger`); the session of an owner of another unit's team (`outsider`), of an
operator of the installation who is in no team (`operator`), of somebody who was a member of the team (`removed`), of an
account that was closed (`closed`); sessions of the team's own people, one a role; and tokens: of the team's owner with
every scope (`token`), with the scope `read` alone (`reader`), with every scope but good in another team only
(`elsewhere`), with every scope and expired (`expired`); and one of who was removed, good in all his teams (`left`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.platform.scoping.world import World

ROLES = ("viewer", "member", "maintainer", "owner")
TOKENS = ("token", "reader", "elsewhere", "expired", "left")
ACTORS = ("stranger", "outsider", "operator", "removed", "closed", *ROLES, *TOKENS)
# These must never read a word of the team.
KEPT_OUT = ("stranger", "outsider", "operator", "removed", "closed", "elsewhere", "expired", "left")
# Whose account or token no longer is: as good as nobody.
NOBODY = ("stranger", "closed", "expired")
# In none of the site's teams. What a rule says of him who is in another one goes for them, unless it says otherwise.
IN_NO_TEAM = {"operator": "outsider", "removed": "outsider", "left": "elsewhere"}

PUBLIC, ANYONE, WORKERS, OPERATORS = "public", "anyone", "workers", "operators"
SIGN_IN, OK = "sent to sign in", "allowed"
Given = Callable[[World], Any]


@dataclass(frozen=True)
class Rule:
    """`audience`: PUBLIC, ANYONE who is signed in, WORKERS (with tokens of their own: none of the actors), OPERATORS,
    or the least role in the team. `but`: what else an actor gets. `body`, `query`: out of the world. `raw`: a body."""

    audience: str
    body: Given | None = None
    query: Given | None = None
    raw: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    but: Mapping[str, int] = field(default_factory=dict)
    shows_the_team: bool = False
    """to those who are kept out, on purpose"""


@dataclass(frozen=True)
class Case:
    """One page or endpoint: the arguments of its address, and a rule for each method that it has."""

    at: Given
    rules: Mapping[str, Rule]


def case(at: Given | None = None, **rules: Rule) -> Case:
    return Case(at or (lambda world: {}), rules)


def public(**more: Any) -> Rule:
    return Rule(PUBLIC, **more)


def anyone(**more: Any) -> Rule:
    return Rule(ANYONE, **more)


def team(least: str, body: Given | None = None, **more: Any) -> Rule:
    return Rule(least, body=body, **more)


def workers(**more: Any) -> Rule:
    return Rule(WORKERS, **more)


def operators(**more: Any) -> Rule:
    return Rule(OPERATORS, **more)


def expected(rule: Rule, method: str, actor: str, *, is_page: bool) -> str | int:
    """OK, SIGN_IN or a status."""
    for one in (actor, IN_NO_TEAM.get(actor, actor)):
        if one in rule.but:
            return rule.but[one]
    if rule.audience == PUBLIC:
        return OK
    if actor in NOBODY or (is_page and actor in TOKENS):  # pages know sessions only
        return SIGN_IN if is_page else 401
    if rule.audience == OPERATORS:
        return OK if actor == "operator" else 403
    if actor == "reader" and method != "GET":
        return 403
    if rule.audience == ANYONE:
        return OK
    if actor in ("outsider", "elsewhere", *IN_NO_TEAM):
        return 404
    role = "owner" if actor in TOKENS else actor
    return OK if ROLES.index(role) >= ROLES.index(rule.audience) else 403
