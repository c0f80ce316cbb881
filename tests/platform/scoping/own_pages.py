"""Pages of the core and accounts apps."""

from __future__ import annotations

from tests.platform.factories import PASSWORD
from tests.platform.scoping.rules import ACTORS, Case, anyone, case, operators, public, team
from tests.platform.scoping.world import World


def a_team(world: World) -> dict[str, object]:
    return {"slug": world.team.slug}


def a_member(world: World) -> dict[str, object]:
    return {"slug": world.team.slug, "member_id": world.memberships["viewer"].pk}


PASSWORDS = {"old_password": "x", "new_password1": "y", "new_password2": "y"}
NOT_THERE = dict.fromkeys(ACTORS, 404)
# who owns no team makes none
OWNS_NONE = dict.fromkeys(("operator", "removed"), 403)
OTHERS = dict.fromkeys(("viewer", "member", "maintainer"), 404)

CORE = {
    "home": case(GET=anyone()),
    "home_work": case(GET=anyone()),
    "health": case(GET=public()),
    "apidocs": case(GET=public()),
}
ACCOUNTS: dict[str, Case] = {
    "sign_in": case(GET=public(), POST=public(body=lambda w: {"username": "nobody@example.com", "password": "x"})),
    "sign_out": case(POST=public()),
    "reset_password": case(GET=public(), POST=public(body=lambda w: {"email": "nobody@example.com"})),
    "reset_password_sent": case(GET=public()),
    # who has no link in his mail gets a page that says so
    "reset_password_confirm": case(
        lambda w: {"uidb64": "MQ", "token": "wrong"}, GET=public(), POST=public(body=lambda w: PASSWORDS)
    ),
    # without the link there is no invitation, whoever asks
    "invitation": case(lambda w: {"token": "wrong"}, GET=public(but=NOT_THERE)),
    "join": case(
        GET=public(but=NOT_THERE),
        POST=public(but=NOT_THERE),
    ),
    "change_password": case(GET=anyone(), POST=anyone(body=lambda w: PASSWORDS)),
    # the owner of a team that has no other one is told so, at the field
    "close_account": case(GET=anyone(), POST=anyone(body=lambda w: {"password": PASSWORD})),
    "profile": case(GET=anyone(), POST=anyone(body=lambda w: {"name": "Someone", "language": "en"})),
    "teams": case(GET=anyone()),
    # an outsider who owns a team makes others in his own unit; what he cannot see he cannot choose
    "team_new": case(
        GET=team("owner", but={"outsider": 200, **OWNS_NONE}),
        POST=team(
            "owner", lambda w: {"business_unit": w.unit.pk, "name": "Another"}, but={"outsider": 200, **OWNS_NONE}
        ),
    ),
    "team": case(a_team, GET=team("viewer")),
    "team_rename": case(a_team, POST=team("owner", lambda w: {"name": "Another"})),
    "team_leave": case(a_team, POST=team("viewer")),
    "team_audit": case(a_team, GET=team("owner")),
    "team_invite": case(a_team, POST=team("owner", lambda w: {"email": "new@example.com", "role": "viewer"})),
    "invitation_revoke": case(lambda w: {"slug": w.team.slug, "invitation_id": w.invitation.pk}, POST=team("owner")),
    "member_role": case(a_member, POST=team("owner", lambda w: {"role": "member"})),
    # a viewer may remove himself
    "member_remove": case(a_member, POST=team("owner", but={"viewer": 302})),
    "quotas": case(GET=operators(shows_the_team=True)),
    "quota": case(a_team, GET=operators(shows_the_team=True), POST=operators(body=lambda w: {"quota": "5 GiB"})),
    "tokens": case(
        GET=anyone(), POST=anyone(body=lambda w: {"name": "new", "scopes": ["read"], "expires_in_days": "30"})
    ),
    # it is the owner's own
    "token_revoke": case(
        lambda w: {"token_id": w.token_row.pk},
        GET=team("owner", but=OTHERS),
        POST=team("owner", but=OTHERS),
    ),
}
PAGES = {**CORE, **ACCOUNTS}
