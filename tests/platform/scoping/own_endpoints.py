"""Endpoints of the core and accounts apps."""

from __future__ import annotations

from tests.platform.scoping.own_pages import a_member, a_team
from tests.platform.scoping.rules import Case, anyone, case, operators, public, team

CORE = {
    "schema": case(GET=public()),
    # a redirect to the page, by whatever method
    "docs": case(GET=public(), POST=public(), PUT=public(), PATCH=public(), DELETE=public()),
}
SESSIONS_ONLY = dict.fromkeys(("token", "reader", "elsewhere", "left"), 403)
ACCOUNTS: dict[str, Case] = {
    "me": case(GET=anyone()),
    "business-units": case(GET=anyone()),
    "teams": case(
        GET=anyone(),
        POST=team("owner", lambda w: {"name": "Another", "business_unit": w.unit.slug}),
    ),
    "team": case(a_team, GET=team("viewer"), PATCH=team("owner", lambda w: {"name": "Another"})),
    "audit": case(a_team, GET=team("owner", but={"reader": 403})),
    "quotas": case(GET=operators(shows_the_team=True)),
    "quota": case(a_team, PATCH=operators(body=lambda w: {"quota_bytes": 5 << 30}, shows_the_team=True)),
    "members": case(a_team, GET=team("viewer")),
    "member": case(
        a_member,
        PATCH=team("owner", lambda w: {"role": "member"}),
        DELETE=team("owner", but={"viewer": 204}),  # himself
    ),
    "invitations": case(
        a_team,
        GET=team("owner", but={"reader": 403}),
        POST=team("owner", lambda w: {"email": "new@example.com", "role": "viewer"}),
    ),
    "invitation": case(lambda w: {"slug": w.team.slug, "invitation_id": w.invitation.pk}, DELETE=team("owner")),
    "tokens": case(GET=anyone(), POST=anyone(body=lambda w: {"name": "new", "scopes": ["read"]}, but=SESSIONS_ONLY)),
    # the row is that of `token`: another token of the same user does not see it
    "token": case(
        lambda w: {"token_id": w.token_row.pk},
        DELETE=team("owner", but=dict.fromkeys(("viewer", "member", "maintainer", "reader"), 404)),
    ),
}
ENDPOINTS = {**CORE, **ACCOUNTS}
