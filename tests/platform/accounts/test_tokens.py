"""API tokens: made and shown once, bounded by scope, team, role and time, revoked."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from fuseworks.accounts import services
from fuseworks.accounts.authentication import token_sha256
from fuseworks.accounts.models import ApiToken, AuditEntry, Membership
from fuseworks.accounts.permissions import Actor
from fuseworks.core.errors import PlatformError
from tests.platform.factories import api_for, client_for, make_member, make_team, make_token, make_user

pytestmark = pytest.mark.django_db
FORM = {"name": "pipeline", "team": "", "scopes": ["submit"], "expires_in_days": "30"}


def shown(text: str) -> list[str]:
    return re.findall(r'<code class="text-body" id="token">(\S+)</code>', text)


def test_a_new_token_is_shown_once_and_works() -> None:
    user = make_member(make_team("ads-ranking"))
    client = client_for(user)
    answer = client.post("/tokens/", FORM)
    (token,) = shown(answer.content.decode())
    assert "no-store" in answer["Cache-Control"]
    assert re.fullmatch(r"fw_[A-Za-z0-9_-]{43}", token)
    assert api_for(token).get("/api/v1/me/").json()["email"] == user.email
    again = client.get("/tokens/").content.decode()
    assert token not in again
    assert token[:12] in again


def test_only_its_hash_and_its_beginning_are_stored() -> None:
    (token,) = shown(client_for(make_user()).post("/tokens/", FORM).content.decode())
    row = ApiToken.objects.values().get()
    assert row["token_sha256"] == token_sha256(token)
    assert row["prefix"] == token[:12]
    kept = [str(row), *(str(entry) for entry in AuditEntry.objects.values())]
    assert not [text for text in kept if token in text]


def test_no_log_line_holds_a_token(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    issued = services.token_create(actor=Actor(make_user()), name="t", team=None, scopes=[], expires_in_days=None)
    api_for(issued.token).get("/api/v1/me/")
    api_for("fw_wrong_and_long").get("/api/v1/me/")
    api_for(issued.token).get("/api/v1/nowhere/")
    assert issued.token not in caplog.text + repr(issued)
    assert "fw_wrong_and_long" not in caplog.text


@pytest.mark.parametrize(("choice", "days"), [("30", 30), ("90", 90), ("365", 365), ("", None)])
def test_it_expires_when_chosen(choice: str, days: int | None) -> None:
    client_for(make_user()).post("/tokens/", {**FORM, "expires_in_days": choice})
    expires_at = ApiToken.objects.get().expires_at
    if days is None:
        assert expires_at is None
    else:
        assert abs(expires_at - timezone.now() - timedelta(days=days)) < timedelta(minutes=1)


def test_reading_is_always_in() -> None:
    client_for(make_user()).post("/tokens/", {**FORM, "scopes": ["recipes", "submit"]})
    assert ApiToken.objects.get().scopes == ["read", "submit", "recipes"]


@pytest.mark.parametrize(
    ("field", "value"), [("name", ""), ("scopes", []), ("scopes", ["everything"]), ("expires_in_days", "7")]
)
def test_wrong_input_is_named_and_makes_no_token(field: str, value: object) -> None:
    answer = client_for(make_user()).post("/tokens/", {**FORM, field: value})
    assert f'id="id_{field}_error"' in answer.content.decode()
    assert not ApiToken.objects.exists()


def test_it_cannot_be_made_for_a_team_of_others() -> None:
    make_team("search")
    answer = client_for(make_member(make_team("ads-ranking"))).post("/tokens/", {**FORM, "team": "search"})
    assert 'id="id_team_error"' in answer.content.decode()
    assert not ApiToken.objects.exists()


def test_a_page_that_is_sent_again_makes_no_second_one() -> None:
    client = client_for(make_user())
    client.post("/tokens/", FORM)
    answer = client.post("/tokens/", {**FORM, "name": "Pipeline"})
    assert "You have a token called Pipeline already" in answer.content.decode()
    assert ApiToken.objects.count() == 1


def test_it_is_refused_from_the_moment_it_is_revoked() -> None:
    user = make_user()
    token = make_token(user)
    row = ApiToken.objects.get()
    client = client_for(user)
    assert api_for(token).get("/api/v1/me/").status_code == 200
    assert client.post(f"/tokens/{row.pk}/revoke/")["Location"] == "/tokens/"
    answer = api_for(token).get("/api/v1/me/")
    assert (answer.status_code, answer.json()["id"]) == (401, "accounts:usage:bad-token")
    assert answer.json()["title"] == "This API token is not known here, is over or was revoked."
    assert answer["WWW-Authenticate"] == "Bearer"
    assert AuditEntry.objects.get().action == "token.revoke"


def test_revoking_asks_once() -> None:
    user = make_user()
    token = make_token(user, name="pipeline")
    row, client = ApiToken.objects.get(), client_for(user)
    address = f"/tokens/{row.pk}/revoke/"
    assert f'href="{address}"' in client.get("/tokens/").content.decode()
    asked = client.get(address).content.decode()
    assert "Revoke the token “pipeline”?" in asked and row.prefix in asked and "This cannot be undone" in asked
    assert api_for(token).get("/api/v1/me/").status_code == 200
    client.post(address)
    assert client.get(address).status_code == 404


def test_a_name_that_is_too_long_is_refused_and_not_cut() -> None:
    client = client_for(make_user())
    assert "At most 80 characters." in client.get("/tokens/").content.decode()
    assert 'id="id_name_error"' in client.post("/tokens/", {**FORM, "name": "x" * 81}).content.decode()
    assert not ApiToken.objects.exists()


def test_nobody_revokes_anothers() -> None:
    make_token(make_user())
    row = ApiToken.objects.get()
    stranger = client_for(make_user())
    assert stranger.get(f"/tokens/{row.pk}/revoke/").status_code == 404
    assert stranger.post(f"/tokens/{row.pk}/revoke/").status_code == 404
    row.refresh_from_db()
    assert row.revoked_at is None


@pytest.mark.parametrize("seconds", [-1, 0])
def test_one_that_has_expired_is_refused(seconds: int) -> None:
    token = make_token(make_user(), expires_at=timezone.now() + timedelta(seconds=seconds))
    answer = api_for(token).get("/api/v1/me/")
    assert (answer.status_code, answer.json()["id"]) == (401, "accounts:usage:bad-token")


def test_that_of_a_closed_account_is_refused() -> None:
    assert api_for(make_token(make_user(is_active=False))).get("/api/v1/me/").status_code == 401


@pytest.mark.parametrize(
    ("header", "id_"),
    [
        ("Bearer", "core:usage:unauthenticated"),
        ("Bearer a b", "core:usage:unauthenticated"),
        ("Bearer fw_unknown", "accounts:usage:bad-token"),
        ("bearer fw_unknown", "accounts:usage:bad-token"),
    ],
)
def test_a_header_that_is_wrong_is_refused_and_never_falls_back_to_the_session(header: str, id_: str) -> None:
    api = api_for(make_user())
    assert api.get("/api/v1/me/").status_code == 200
    answer = api.get("/api/v1/me/", headers={"authorization": header})
    assert (answer.status_code, answer.json()["id"]) == (401, id_)


def test_a_role_that_is_lost_is_lost_to_the_token_too() -> None:
    team = make_team("ads-ranking")
    user = make_member(team, "owner")
    api = api_for(make_token(user))
    assert api.get("/api/v1/teams/ads-ranking/invitations/").status_code == 200
    Membership.objects.filter(user=user).update(role="member")
    assert api.get("/api/v1/teams/ads-ranking/invitations/").status_code == 403
    Membership.objects.filter(user=user).delete()
    assert api.get("/api/v1/teams/ads-ranking/").status_code == 404


def test_one_that_is_good_in_one_team_does_not_see_another() -> None:
    here, there = make_team("ads-ranking"), make_team("search")
    user = make_member(here, "owner")
    make_member(there, "owner", user)
    api = api_for(make_token(user, here))
    assert [t["slug"] for t in api.get("/api/v1/teams/").json()["results"]] == ["ads-ranking"]
    assert [t["slug"] for t in api.get("/api/v1/me/").json()["teams"]] == ["ads-ranking"]
    assert api.get("/api/v1/teams/search/").status_code == 404
    weak = api_for(make_token(user, here, ("read",)))
    answer = weak.post("/api/v1/teams/search/invitations/", {"email": "x@example.com", "role": "viewer"})
    assert answer.status_code == 404  # a missing scope would tell that the team is there


def test_without_the_scope_read_nothing_is_read() -> None:
    answer = api_for(make_token(make_user(), scopes=("submit",))).get("/api/v1/me/")
    assert (answer.status_code, answer.json()["id"]) == (403, "core:usage:token-scope")


def test_the_last_use_is_noted_once_a_minute() -> None:
    token = make_token(make_user())
    api_for(token).get("/api/v1/me/")
    first = ApiToken.objects.get().last_used_at
    assert first is not None
    api_for(token).get("/api/v1/me/")
    assert ApiToken.objects.get().last_used_at == first
    ApiToken.objects.update(last_used_at=first - timedelta(minutes=1))
    api_for(token).get("/api/v1/me/")
    assert ApiToken.objects.get().last_used_at > first


def test_no_token_makes_another_whatever_its_scopes() -> None:
    user = make_user()
    token = make_token(user)
    body = {"name": "second", "scopes": ["read"]}
    answer = api_for(token).post("/api/v1/tokens/", body)
    assert (answer.status_code, answer.json()["id"]) == (403, "accounts:usage:session-only")
    with pytest.raises(PlatformError) as caught:
        services.token_create(
            actor=Actor(user, ApiToken.objects.get()), name="second", team=None, scopes=[], expires_in_days=None
        )
    assert caught.value.id == "accounts:usage:session-only"
    assert ApiToken.objects.count() == 1


def test_a_token_sees_and_revokes_itself_only() -> None:
    user = make_user()
    token, other = make_token(user, name="this"), make_token(user, name="other")
    this_row, other_row = ApiToken.objects.get(name="this"), ApiToken.objects.get(name="other")
    api = api_for(token)
    assert [t["name"] for t in api.get("/api/v1/tokens/").json()["results"]] == ["this"]
    assert api.delete(f"/api/v1/tokens/{other_row.pk}/").status_code == 404
    assert api_for(other).get("/api/v1/me/").status_code == 200
    assert api.delete(f"/api/v1/tokens/{this_row.pk}/").status_code == 204
    assert api.get("/api/v1/me/").status_code == 401
