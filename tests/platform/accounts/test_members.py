"""Roles of members and their leaving. A team always keeps an owner."""

from __future__ import annotations

from functools import partial

import pytest
from django.test import Client

from fuseworks.accounts import services
from fuseworks.accounts.models import ApiToken, AuditEntry, Invitation, Membership, Team, User
from fuseworks.accounts.permissions import Actor
from fuseworks.core.errors import PlatformError
from tests.platform.accounts.racing import refusals_at_once
from tests.platform.factories import client_for, make_member, make_team, make_token, make_user

pytestmark = pytest.mark.django_db


def of(user: User, team: Team) -> Membership:
    return Membership.objects.get(user=user, team=team)


def role(user: User, team: Team) -> str | None:
    return Membership.objects.filter(user=user, team=team).values_list("role", flat=True).first()


def change(client: Client, membership: Membership, to: str):  # type: ignore[no-untyped-def]
    return client.post(f"/teams/{membership.team.slug}/members/{membership.pk}/role/", {"role": to}, follow=True)


def test_an_owner_changes_a_role_and_it_is_noted(owner: User, team: Team) -> None:
    member = make_member(team, "viewer", make_user("ben@example.com"))
    answer = change(client_for(owner), of(member, team), "maintainer")
    assert "ben@example.com is now: Maintainer." in answer.content.decode()
    assert role(member, team) == "maintainer"
    entry = AuditEntry.objects.get(team=team)
    assert (entry.action, entry.actor) == ("member.change_role", owner)
    assert entry.detail == {"email": "ben@example.com", "before": "viewer", "to": "maintainer"}


def test_the_same_role_again_notes_nothing(owner: User, team: Team) -> None:
    member = make_member(team, "viewer")
    change(client_for(owner), of(member, team), "viewer")
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("mine", ["viewer", "member", "maintainer"])
def test_nobody_else_changes_a_role_his_own_included(owner: User, team: Team, mine: str) -> None:
    member = make_member(team, mine)
    for target in (of(member, team), of(owner, team)):
        assert change(client_for(member), target, "owner").status_code == 403
    assert (role(member, team), role(owner, team)) == (mine, "owner")


def test_a_role_that_is_none_is_refused(owner: User, team: Team) -> None:
    member = make_member(team, "viewer")
    assert change(client_for(owner), of(member, team), "god").status_code == 400
    assert role(member, team) == "viewer"


def test_the_last_owner_is_neither_demoted_nor_removed_nor_does_he_leave(owner: User, team: Team) -> None:
    client, mine = client_for(owner), of(owner, team)
    for answer in (
        change(client, mine, "viewer"),
        client.post(f"/teams/ads-ranking/members/{mine.pk}/remove/", follow=True),
        client.post("/teams/ads-ranking/leave/", follow=True),
    ):
        assert "Ads ranking would be left without an owner" in answer.content.decode()
        assert "Make another member an owner first" in answer.content.decode()
    assert role(owner, team) == "owner"
    assert not AuditEntry.objects.exists()


def test_an_owner_who_cannot_sign_in_does_not_count(owner: User, team: Team) -> None:
    make_member(team, "owner", make_user(is_active=False))
    with pytest.raises(PlatformError) as caught:
        services.team_leave(actor=Actor(owner), team=team)
    assert caught.value.id == "accounts:usage:last-owner"


def test_one_of_two_owners_leaves(owner: User, team: Team) -> None:
    make_member(team, "owner")
    client = client_for(owner)
    assert client.post("/teams/ads-ranking/leave/")["Location"] == "/teams/"
    assert role(owner, team) is None
    assert client.get("/teams/ads-ranking/").status_code == 404
    assert AuditEntry.objects.get().action == "member.leave"


def test_anybody_leaves_and_nobody_but_owners_removes_others(owner: User, team: Team) -> None:
    viewer, maintainer = make_member(team, "viewer"), make_member(team, "maintainer")
    address = f"/teams/ads-ranking/members/{of(viewer, team).pk}/remove/"
    assert client_for(maintainer).post(address).status_code == 403
    assert client_for(viewer).post("/teams/ads-ranking/leave/").status_code == 302
    assert role(viewer, team) is None
    assert client_for(owner).post(f"/teams/ads-ranking/members/{of(maintainer, team).pk}/remove/").status_code == 302
    assert role(maintainer, team) is None
    assert list(AuditEntry.objects.order_by("created_at").values_list("action", flat=True)) == [
        "member.leave",
        "member.remove",
    ]


def test_a_member_of_another_team_cannot_be_named_through_ones_own(owner: User, team: Team) -> None:
    other = make_team("search")
    stranger = make_member(other, "viewer")
    for slug in ("ads-ranking", "search"):
        address = f"/teams/{slug}/members/{of(stranger, other).pk}"
        assert client_for(owner).post(f"{address}/role/", {"role": "owner"}).status_code == 404
        assert client_for(owner).post(f"{address}/remove/").status_code == 404
    assert role(stranger, other) == "viewer"


def test_who_is_removed_loses_the_tokens_of_that_team_and_no_others(owner: User, team: Team) -> None:
    member = make_member(team, "member")
    other = make_team()
    make_member(other, "member", member)
    make_token(member, team, name="here")
    make_token(member, other, name="there")
    make_token(member, name="everywhere")
    services.member_remove(actor=Actor(owner), membership=of(member, team))
    assert set(ApiToken.objects.filter(revoked_at=None).values_list("name", flat=True)) == {"there", "everywhere"}


@pytest.mark.parametrize("how", ["removed", "demoted"])
def test_an_owner_who_is_removed_or_demoted_cannot_come_back_by_a_link_of_his_own(
    owner: User, team: Team, how: str
) -> None:
    second = make_member(team, "owner")
    services.invitation_create(actor=Actor(second), team=team, email="back@example.com", role="owner")
    services.invitation_create(actor=Actor(owner), team=team, email="other@example.com", role="member")
    if how == "removed":
        services.member_remove(actor=Actor(owner), membership=of(second, team))
    else:
        services.member_role_change(actor=Actor(owner), membership=of(second, team), role="member")
    assert list(Invitation.objects.filter(revoked_at=None).values_list("email", flat=True)) == ["other@example.com"]


def test_a_token_without_the_scope_manages_nobody_not_even_its_user(owner: User, team: Team) -> None:
    make_member(team, "owner")
    token = ApiToken.objects.create(user=owner, name="t", prefix="fw_", token_sha256="0" * 64, scopes=["read"])
    with pytest.raises(PlatformError) as caught:
        services.team_leave(actor=Actor(owner, token), team=team)
    assert caught.value.id == "core:usage:token-scope"


def test_one_who_is_gone_meanwhile_is_not_found(owner: User, team: Team) -> None:
    membership = of(make_member(team, "viewer"), team)
    Membership.objects.filter(pk=membership.pk).delete()
    for act in (
        lambda: services.member_remove(actor=Actor(owner), membership=membership),
        lambda: services.member_role_change(actor=Actor(owner), membership=membership, role="member"),
    ):
        with pytest.raises(PlatformError) as caught:
            act()
        assert caught.value.status == 404


@pytest.mark.django_db(transaction=True)
def test_two_owners_who_leave_at_once_do_not_both_get_out() -> None:
    team = make_team()
    owners = [make_member(team, "owner") for _ in range(2)]
    works = [partial(services.team_leave, actor=Actor(owner), team=team) for owner in owners]
    assert refusals_at_once(*works) == ["accounts:usage:last-owner"]
    assert Membership.objects.filter(team=team, role="owner").count() == 1
