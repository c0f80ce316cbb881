"""The accounts' part of the REST API."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from rest_framework.test import APIClient

from fuseworks.accounts.models import ApiToken, Invitation, Membership, Team
from tests.platform.factories import PASSWORD, api_for, make_member, make_team, make_token, make_unit, make_user

pytestmark = pytest.mark.django_db


def test_me_tells_who_calls_with_which_roles_and_what_the_token_may() -> None:
    team = make_team("ads-ranking", make_unit("Ads"))
    user = make_member(team, "maintainer", make_user("ann@example.com", name="Ann", language="en"))
    token = make_token(user, team, ("read", "submit"), name="pipeline")
    document = api_for(token).get("/api/v1/me/").json()
    row = ApiToken.objects.get()
    assert document.pop("token") == {
        "id": str(row.pk),
        "name": "pipeline",
        "prefix": row.prefix,
        "team": "ads-ranking",
        "scopes": ["read", "submit"],
        "created_at": row.created_at.isoformat().replace("+00:00", "Z"),
        "expires_at": None,
        "last_used_at": None,
    }
    assert document == {
        "email": "ann@example.com",
        "name": "Ann",
        "language": "en",
        "teams": [{"slug": "ads-ranking", "name": "Ads ranking", "business_unit": "ads", "role": "maintainer"}],
    }


def test_me_by_a_session_has_no_token() -> None:
    assert api_for(make_user()).get("/api/v1/me/").json()["token"] is None


def test_a_stranger_is_told_how_to_get_in() -> None:
    answer = APIClient().get("/api/v1/me/")
    assert answer.status_code == 401
    assert answer["Content-Type"] == "application/problem+json"
    assert answer["WWW-Authenticate"] == "Bearer"
    assert "Authorization: Bearer TOKEN" in answer.json()["remedy"]


def test_a_page_of_another_site_cannot_use_the_readers_session() -> None:
    user = make_member(make_team("ads-ranking"), "owner")
    api = api_for(user, enforce_csrf_checks=True)
    answer = api.post("/api/v1/tokens/", {"name": "stolen", "scopes": ["read"]})
    assert answer.status_code == 403
    assert not ApiToken.objects.exists()


def test_business_units_are_those_of_ones_own_teams_each_once() -> None:
    ads = make_unit("Ads")
    make_unit("Search")
    user = make_user()
    for _ in range(2):
        make_member(make_team(unit=ads), "viewer", user)
    results = api_for(user).get("/api/v1/business-units/").json()["results"]
    assert results == [{"id": str(ads.pk), "slug": "ads", "name": "Ads"}]


def test_teams_are_paginated() -> None:
    user = make_user()
    for slug in ("a", "b", "c"):
        make_member(make_team(slug, make_unit(slug)), "viewer", user)
    document = api_for(user).get("/api/v1/teams/?page_size=2").json()
    assert (document["count"], [t["slug"] for t in document["results"]]) == (3, ["a", "b"])
    assert [t["slug"] for t in api_for(user).get(document["next"]).json()["results"]] == ["c"]


def test_an_owner_makes_a_team() -> None:
    user = make_member(make_team("ads-ranking", make_unit("Ads")), "owner")
    answer = api_for(user).post("/api/v1/teams/", {"name": "Ads retrieval", "business_unit": "ads"})
    assert answer.status_code == 201
    assert {**answer.json(), "id": "", "created_at": ""} == {
        "id": "",
        "slug": "ads-retrieval",
        "name": "Ads retrieval",
        "business_unit": "ads",
        "created_at": "",
    }
    assert Membership.objects.get(team__slug="ads-retrieval").role == "owner"


@pytest.mark.parametrize(
    ("role", "unit", "status", "id_"),
    [
        ("maintainer", "ads", 403, "accounts:usage:no-unit-to-found-in"),
        ("owner", "search", 404, "core:usage:not-found"),
        ("owner", "nothing", 404, "core:usage:not-found"),
    ],
)
def test_nobody_makes_a_team_where_he_owns_none(role: str, unit: str, status: int, id_: str) -> None:
    make_unit("Search")
    user = make_member(make_team(unit=make_unit("Ads")), role)
    answer = api_for(user).post("/api/v1/teams/", {"name": "Mine", "business_unit": unit})
    assert (answer.status_code, answer.json()["id"]) == (status, id_)
    assert not Team.objects.filter(name="Mine").exists()


def test_a_token_of_one_team_makes_no_other() -> None:
    team = make_team(unit=make_unit("Ads"))
    token = make_token(make_member(team, "owner"), team)
    answer = api_for(token).post("/api/v1/teams/", {"name": "Mine", "business_unit": "ads"})
    assert answer.status_code == 403
    assert not Team.objects.filter(name="Mine").exists()


def test_wrong_input_names_the_fields() -> None:
    user = make_member(make_team(unit=make_unit("Ads")), "owner")
    answer = api_for(user).post("/api/v1/teams/", {"name": "x" * 81})
    assert answer.status_code == 400
    assert set(answer.json()["fields"]) == {"name", "business_unit"}


def test_a_team_tells_the_callers_role() -> None:
    team = make_team("ads-ranking", make_unit("Ads"))
    document = api_for(make_member(team, "viewer")).get("/api/v1/teams/ads-ranking/").json()
    assert (document["slug"], document["business_unit"], document["role"]) == ("ads-ranking", "ads", "viewer")


def test_members_stand_owners_first_then_by_name() -> None:
    team = make_team("ads-ranking")
    for role, name in [("viewer", "Ann"), ("owner", "Zoe"), ("member", "Cid"), ("member", "Ben")]:
        viewer = make_member(team, role, make_user(name=name))
    results = api_for(viewer).get("/api/v1/teams/ads-ranking/members/").json()["results"]
    assert [(m["name"], m["role"]) for m in results] == [
        ("Zoe", "owner"),
        ("Ben", "member"),
        ("Cid", "member"),
        ("Ann", "viewer"),
    ]


def test_a_role_is_changed_and_a_member_removed() -> None:
    team = make_team("ads-ranking")
    api = api_for(make_token(make_member(team, "owner")))
    member = Membership.objects.get(user=make_member(team, "viewer"), team=team)
    address = f"/api/v1/teams/ads-ranking/members/{member.pk}/"
    answer = api.patch(address, {"role": "maintainer"})
    assert (answer.status_code, answer.json()["role"]) == (200, "maintainer")
    assert api.patch(address, {"role": "god"}).status_code == 400
    assert api.delete(address).status_code == 204
    assert api.delete(address).status_code == 404


def test_the_last_owner_stays() -> None:
    team = make_team("ads-ranking")
    owner = make_member(team, "owner")
    address = f"/api/v1/teams/ads-ranking/members/{Membership.objects.get().pk}/"
    for answer in (api_for(owner).delete(address), api_for(owner).patch(address, {"role": "viewer"})):
        assert (answer.status_code, answer.json()["id"]) == (409, "accounts:usage:last-owner")


def test_an_invitation_is_made_with_its_link_once_and_revoked(settings: Any) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"  # no mail server is set
    team = make_team("ads-ranking")
    api = api_for(make_token(make_member(team, "owner")))
    address = "/api/v1/teams/ads-ranking/invitations/"
    answer = api.post(address, {"email": "new@example.com", "role": "member"})
    assert answer.status_code == 201
    assert "no-store" in answer["Cache-Control"]
    link = answer.json()["link"]
    (listed,) = api.get(address).json()["results"]
    assert (listed["email"], "link" in listed) == ("new@example.com", False)
    visitor = APIClient()
    assert visitor.get(link, follow=True).status_code == 200
    assert api.delete(f"{address}{listed['id']}/").status_code == 204
    assert api.get(address).json()["results"] == []
    joined = visitor.post("/join/", {"name": "B", "password1": PASSWORD, "password2": PASSWORD}, format="multipart")
    assert joined.status_code == 404
    assert Invitation.objects.get().accepted_at is None


def test_only_owners_see_invitations() -> None:
    team = make_team("ads-ranking")
    answer = api_for(make_member(team, "maintainer")).get("/api/v1/teams/ads-ranking/invitations/")
    assert (answer.status_code, answer.json()["id"]) == (403, "core:usage:forbidden")


def test_a_session_makes_a_token_which_works_and_is_told_once() -> None:
    team = make_team("ads-ranking")
    api = api_for(make_member(team))
    body = {"name": "pipeline", "team": "ads-ranking", "scopes": ["submit"], "expires_in_days": None}
    answer = api.post("/api/v1/tokens/", body)
    document = answer.json()
    assert (answer.status_code, document["scopes"], document["expires_at"]) == (201, ["read", "submit"], None)
    assert "no-store" in answer["Cache-Control"]
    assert api_for(document["token"]).get("/api/v1/me/").json()["token"]["team"] == "ads-ranking"
    (listed,) = api.get("/api/v1/tokens/").json()["results"]
    assert "token" not in listed
    assert api.post("/api/v1/tokens/", {**body, "name": "other", "team": "search"}).status_code == 404


def test_an_id_that_is_not_there_is_not_found() -> None:
    team = make_team("ads-ranking")
    api = api_for(make_member(team, "owner"))
    for kind in ("members", "invitations"):
        assert api.delete(f"/api/v1/teams/ads-ranking/{kind}/{uuid.uuid4()}/").status_code == 404
    assert api.delete(f"/api/v1/tokens/{uuid.uuid4()}/").status_code == 404
