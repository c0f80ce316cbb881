"""Closing an account: what ends at once, what stays and under which name, and what stands in the way."""

from __future__ import annotations

from functools import partial
from io import StringIO

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import translation

from fuseworks.accounts import services
from fuseworks.accounts.models import ApiToken, AuditEntry, Invitation, Membership, Team, User
from fuseworks.accounts.permissions import Actor
from fuseworks.core.errors import PlatformError
from fuseworks.registry.models import ModelVersion
from fuseworks.runs.services import run_cancel, run_create
from tests.platform.accounts.racing import refusals_at_once
from tests.platform.factories import (
    PASSWORD,
    api_for,
    client_for,
    make_member,
    make_model,
    make_run,
    make_team,
    make_token,
    make_user,
    make_version,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def team() -> Team:
    return make_team("ads-ranking")


@pytest.fixture
def owner(team: Team) -> User:
    return make_member(team, "owner", make_user("owner@example.com"))


@pytest.fixture
def ann(team: Team, owner: User) -> User:
    return make_member(team, "member", make_user("ann@example.com", name="Ann"))


def close(client: Client, password: str = PASSWORD):  # type: ignore[no-untyped-def]
    return client.post("/close-account/", {"password": password}, follow=True)


def test_she_closes_her_account_by_her_password_and_is_signed_out(ann: User) -> None:
    answer = close(client_for(ann))
    assert answer.redirect_chain == [("/sign-in/", 302)]
    assert "Your account is closed." in answer.content.decode()
    ann.refresh_from_db()
    assert (ann.is_active, ann.name, ann.has_usable_password()) == (False, "", False)
    assert ann.closed_at is not None
    assert "ann" not in ann.email


def test_a_wrong_password_closes_nothing(ann: User) -> None:
    answer = close(client_for(ann), "another one")
    assert "This is not the password of the account." in answer.content.decode()
    ann.refresh_from_db()
    assert (ann.is_active, ann.email) == (True, "ann@example.com")


def test_her_other_sessions_and_tokens_end_at_once(ann: User, team: Team) -> None:
    phone, api = client_for(ann), api_for(make_token(ann))
    assert (phone.get("/runs/").status_code, api.get("/api/v1/me/").status_code) == (200, 200)
    close(client_for(ann))
    assert phone.get("/runs/").status_code == 302
    assert api_for(ann).get("/api/v1/me/").status_code == 401
    assert api.get("/api/v1/me/").status_code == 401
    assert ApiToken.objects.get().revoked_at is not None
    assert not Client().login(username="ann@example.com", password=PASSWORD)


def test_what_she_made_stays_and_shows_a_closed_account(ann: User, team: Team, owner: User) -> None:
    run = make_run(make_version(make_model(team)), created_by=ann)
    close(client_for(ann))
    client = client_for(owner)
    for address in (f"/runs/{run.pk}/", "/runs/"):
        text = client.get(address).content.decode()
        assert "closed account" in text and "Ann" not in text
    assert "已关闭的账户" in client.get(f"/runs/{run.pk}/", headers={"accept-language": "zh-hans"}).content.decode()
    told = api_for(owner).get(f"/api/v1/runs/{run.pk}/", headers={"accept-language": "zh-hans"}).json()
    assert told["created_by"] == "closed account"


def test_she_is_in_no_list_of_members_and_the_teams_log_says_who_left(ann: User, team: Team, owner: User) -> None:
    close(client_for(ann))
    assert "closed account" not in client_for(owner).get("/teams/ads-ranking/").content.decode()
    entry = AuditEntry.objects.get(team=team)
    assert (entry.action, entry.actor, entry.detail) == ("account.close", ann, {"email": "ann@example.com"})
    log = client_for(owner).get("/teams/ads-ranking/audit/").content.decode()
    assert "account.close" in log and "ann@example.com" in log


def test_links_that_she_made_bring_nobody_in_any_more(team: Team, owner: User) -> None:
    second = make_member(team, "owner")
    services.invitation_create(actor=Actor(second), team=team, email="back@example.com", role="owner")
    services.account_close(actor=Actor(second), password=PASSWORD)
    assert Invitation.objects.get().revoked_at is not None


def test_her_address_is_free_and_the_new_account_inherits_nothing(ann: User, team: Team, owner: User) -> None:
    services.account_close(actor=Actor(ann), password=PASSWORD)
    invited = services.invitation_create(actor=Actor(owner), team=team, email="ann@example.com", role="viewer")
    joined = services.invitation_accept_as_new(invitation=invited.invitation, name="Ann", password=PASSWORD)
    assert (joined.user.email, joined.role) == ("ann@example.com", "viewer")
    assert joined.user.pk != ann.pk


def test_the_last_owner_is_told_of_which_teams_and_nothing_is_closed(owner: User, team: Team) -> None:
    other = make_team("search")
    make_member(other, "owner", owner)
    make_member(other, "owner")  # of this one there is another
    client = client_for(owner)
    page = client.get("/close-account/").content.decode()
    assert "/teams/ads-ranking/" in page and "/teams/search/" not in page
    assert 'name="password"' not in page
    with pytest.raises(PlatformError) as caught:
        services.account_close(actor=Actor(owner), password=PASSWORD)
    assert (caught.value.id, caught.value.status) == ("accounts:usage:last-owner-of", 409)
    assert caught.value.extra == {"teams": ["ads-ranking"]}
    assert "Make another member of each an owner first" in caught.value.remedy
    assert Membership.objects.filter(user=owner).count() == 2
    assert not AuditEntry.objects.exists()


def test_an_owner_who_cannot_sign_in_does_not_count(owner: User, team: Team) -> None:
    make_member(team, "owner", make_user(is_active=False))
    assert services.teams_without_another_owner(owner) == [team]
    make_member(team, "owner")
    assert services.teams_without_another_owner(owner) == []


def test_no_token_closes_an_account(ann: User) -> None:
    token = ApiToken.objects.create(user=ann, name="t", prefix="fw_", token_sha256="0" * 64, scopes=["manage"])
    with pytest.raises(PlatformError) as caught:
        services.account_close(actor=Actor(ann, token), password=PASSWORD)
    assert caught.value.status == 403


def test_an_operator_who_closes_his_account_is_none_any_more() -> None:
    operator = make_user(is_staff=True)
    services.account_close(actor=Actor(operator), password=PASSWORD)
    operator.refresh_from_db()
    assert operator.is_staff is False


def test_the_command_closes_for_somebody_who_is_gone(ann: User, team: Team) -> None:
    out = StringIO()
    call_command("close_account", "--email", "Ann@example.com", stdout=out)
    assert out.getvalue() == "The account ann@example.com is closed.\n"
    entry = AuditEntry.objects.get(team=team)
    assert (entry.action, entry.actor, entry.detail["email"]) == ("account.close", None, "ann@example.com")
    with pytest.raises(CommandError, match="no open account"):
        call_command("close_account", "--email", "ann@example.com")


def test_the_command_says_how_a_team_gets_another_owner(owner: User) -> None:
    with pytest.raises(CommandError, match="create_owner"):
        call_command("close_account", "--email", "owner@example.com")
    owner.refresh_from_db()
    assert owner.is_active


@pytest.mark.django_db(transaction=True)
def test_two_owners_who_close_at_once_do_not_both_get_out() -> None:
    team = make_team()
    owners = [make_member(team, "owner") for _ in range(2)]
    works = [partial(services.account_close, actor=Actor(owner), password=PASSWORD) for owner in owners]
    assert refusals_at_once(*works) == ["accounts:usage:last-owner-of"]
    assert Membership.objects.filter(team=team, role="owner").count() == 1


def test_nothing_but_the_audit_log_still_names_her(team: Team, owner: User, version: ModelVersion) -> None:
    zebra = make_member(team, "member", make_user("zebra@example.com", name="Zebra"))
    waiting = run_create(actor=Actor(zebra), version=version, purpose="inspect")
    run_cancel(actor=Actor(zebra), run=waiting)
    ModelVersion.objects.update(uploaded_by=zebra)
    api, client = api_for(make_token(owner)), client_for(owner)
    assert api.get(f"/api/v1/runs/{waiting.pk}/").json()["summary"] == "cancelled by Zebra"
    assert "Cancelled by Zebra." in client.get(f"/runs/{waiting.pk}/").content.decode()
    services.account_close(actor=Actor(zebra), password=PASSWORD)
    for model in apps.get_models():
        if model._meta.label.startswith(("accounts.", "registry.", "runs.")) and model is not AuditEntry:
            assert "zebra" not in str(list(model._default_manager.values())).lower(), model
    chinese = {"headers": {"accept-language": "zh-hans"}}
    told = api.get(f"/api/v1/runs/{waiting.pk}/", **chinese).json()
    assert (told["summary"], told["created_by"]) == ("cancelled by closed account", "closed account")
    assert api.get(f"/api/v1/versions/{version.pk}/", **chinese).json()["uploaded_by"] == "closed account"
    page = client.get(f"/runs/{waiting.pk}/", **chinese).content.decode()
    with translation.override("zh-hans"):
        assert f"由 {translation.gettext('closed account')} 取消。" in page
