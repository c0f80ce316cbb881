"""Inviting, and what whoever holds the link can do."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.core import mail as django_mail
from django.test import Client, override_settings
from django.utils import timezone

from fuseworks.accounts import services
from fuseworks.accounts.models import AuditEntry, Invitation, Membership, Team, User
from fuseworks.accounts.permissions import Actor
from fuseworks.core.errors import PlatformError
from tests.platform.factories import PASSWORD, api_for, client_for, make_member, make_team, make_user

pytestmark = pytest.mark.django_db
UNSENT = "django.core.mail.backends.console.EmailBackend"


def invite(owner: User, team: Team, email: str = "new@example.com", role: str = "member") -> services.Invited:
    return services.invitation_create(actor=Actor(owner), team=team, email=email, role=role)


def follow(client: Client, token: str):  # type: ignore[no-untyped-def]
    return client.get(f"/invitations/{token}/", follow=True)


def test_the_link_is_mailed_to_the_address_and_shown_to_nobody_else(
    owner: User, team: Team, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        page = client_for(owner).post("/teams/ads-ranking/invite/", {"email": "New@example.com", "role": "viewer"})
        answer = api_for(owner).post("/api/v1/teams/ads-ranking/invitations/", {"email": "b@e.com", "role": "viewer"})
    first, second = django_mail.outbox
    (token,) = re.findall(r"http://testserver/invitations/(\S+)/", first.body)
    assert first.to == ["new@example.com"] and second.to == ["b@e.com"]
    assert first.subject == "Ann invites you to Ads ranking on Fuseworks"
    text = page.content.decode()
    assert page.status_code == 200 and "new@example.com is invited" in text
    assert token not in text and "invitation-link" not in text
    assert "by e-mail, and nowhere else" in text
    assert (answer.status_code, answer.json()["link"]) == (201, None)
    assert "/invitations/" not in answer.content.decode()


def test_only_the_links_hash_is_stored(owner: User, team: Team) -> None:
    invited = invite(owner, team)
    stored = Invitation.objects.values().get()
    assert not [value for value in stored.values() if invited.token in str(value)]
    assert not [e for e in AuditEntry.objects.values() if invited.token in str(e)]
    assert invited.token not in repr(invited)


def test_without_a_mail_server_the_link_is_shown_once_with_what_that_means(owner: User, team: Team) -> None:
    client = client_for(owner)
    with override_settings(EMAIL_BACKEND=UNSENT):
        answer = client.post("/teams/ads-ranking/invite/", {"email": "new@example.com", "role": "viewer"})
    text = answer.content.decode()
    (link,) = re.findall(r'<code class="text-body" id="invitation-link">(\S+)</code>', text)
    assert link.startswith("http://testserver/invitations/")
    assert "no-store" in answer["Cache-Control"]
    assert "pass the link on yourself" in text and "Nothing proves who opens it" in text
    assert link not in client.get("/teams/ads-ranking/").content.decode()
    assert "You are invited to Ads ranking" in Client().get(link, follow=True).content.decode()
    assert django_mail.outbox == []


@pytest.mark.parametrize(
    ("email", "role", "field"), [("no address", "member", "email"), ("new@example.com", "god", "role")]
)
def test_wrong_input_stays_in_the_form_and_the_field_is_named(
    owner: User, team: Team, email: str, role: str, field: str
) -> None:
    answer = client_for(owner).post("/teams/ads-ranking/invite/", {"email": email, "role": role})
    text = answer.content.decode()
    assert f'id="id_{field}_error"' in text
    assert f'value="{email}"' in text
    assert not Invitation.objects.exists()


def test_an_address_longer_than_its_column_is_named_at_its_field(owner: User, team: Team) -> None:
    email = "x" * 250 + "@example.com"
    page = client_for(owner).post("/teams/ads-ranking/invite/", {"email": email, "role": "member"})
    assert page.status_code == 200
    assert 'id="id_email_error"' in page.content.decode() and "at most 254 characters" in page.content.decode()
    answer = api_for(owner).post("/api/v1/teams/ads-ranking/invitations/", {"email": email, "role": "member"})
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["email"])
    assert not Invitation.objects.exists()


def test_an_address_is_invited_once_and_a_member_never(owner: User, team: Team) -> None:
    invite(owner, team)
    for email, id_ in [("NEW@example.com", "already-invited"), ("Owner@example.com", "already-member")]:
        with pytest.raises(PlatformError) as caught:
            invite(owner, team, email)
        assert caught.value.id == f"accounts:usage:{id_}"
    text = client_for(owner).post("/teams/ads-ranking/invite/", {"email": "new@example.com", "role": "viewer"})
    assert "new@example.com is invited to Ads ranking already" in text.content.decode()


def test_open_invitations_are_bounded(owner: User, team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuseworks.accounts.services.invitations.MAX_OPEN", 2)
    invite(owner, team, "one@example.com")
    invite(owner, team, "two@example.com")
    with pytest.raises(PlatformError) as caught:
        invite(owner, team, "three@example.com")
    assert caught.value.id == "accounts:usage:too-many-invitations"


@pytest.mark.parametrize("role", ["viewer", "member", "maintainer"])
def test_only_owners_invite(team: Team, owner: User, role: str) -> None:
    member = make_member(team, role)
    with pytest.raises(PlatformError) as caught:
        invite(member, team)
    assert (caught.value.id, caught.value.status) == ("core:usage:forbidden", 403)
    assert f"is {role}; this needs owner" in caught.value.message
    assert client_for(member).post("/teams/ads-ranking/invite/", {}).status_code == 403


def test_the_secret_leaves_the_address_bar_at_once(owner: User, team: Team, client: Client) -> None:
    answer = client.get(f"/invitations/{invite(owner, team).token}/")
    assert (answer.status_code, answer["Location"]) == (302, "/join/")
    page = client.get("/join/").content.decode()
    assert "You are invited to Ads ranking" in page
    assert "new@example.com" in page


def test_somebody_new_sets_name_and_password_and_is_in(owner: User, team: Team, client: Client) -> None:
    token = invite(owner, team, role="maintainer").token
    follow(client, token)
    before = client.cookies["sessionid"].value
    answer = client.post("/join/", {"name": "Ben", "password1": PASSWORD, "password2": PASSWORD})
    assert answer["Location"] == "/teams/ads-ranking/"
    assert client.cookies["sessionid"].value != before
    user = User.objects.get(email="new@example.com")
    assert (user.name, user.check_password(PASSWORD), user.is_staff) == ("Ben", True, False)
    assert Membership.objects.get(user=user).role == "maintainer"
    assert client.get("/teams/ads-ranking/").status_code == 200
    assert follow(Client(), token).status_code == 404  # good once


@pytest.mark.parametrize(
    ("password1", "password2", "field"),
    [
        (PASSWORD, "different words 9", "password2"),
        ("1234567890123", "1234567890123", "password1"),
        ("", "", "password1"),
    ],
)
def test_a_bad_password_is_named_and_the_name_stays(
    owner: User, team: Team, client: Client, password1: str, password2: str, field: str
) -> None:
    follow(client, invite(owner, team).token)
    answer = client.post("/join/", {"name": "Ben", "password1": password1, "password2": password2})
    text = answer.content.decode()
    assert f'id="id_{field}_error"' in text
    assert 'value="Ben"' in text
    assert not User.objects.filter(email="new@example.com").exists()


def test_somebody_with_an_account_signs_in_first_and_then_joins(owner: User, team: Team, client: Client) -> None:
    user = make_user("new@example.com")
    page = follow(client, invite(owner, team).token).content.decode()
    assert "password1" not in page
    assert 'href="/sign-in/?next=/join/"' in page
    answer = client.post("/sign-in/", {"username": user.email, "password": PASSWORD, "next": "/join/"})
    assert answer["Location"] == "/join/"
    assert not Membership.objects.filter(user=user).exists()  # following a link joins nothing by itself
    assert client.post("/join/")["Location"] == "/teams/ads-ranking/"
    assert Membership.objects.get(user=user).role == "member"


def test_an_account_cannot_be_taken_over_by_its_own_invitation(owner: User, team: Team, client: Client) -> None:
    user = make_user("new@example.com")
    follow(client, invite(owner, team).token)
    client.post("/join/", {"name": "Thief", "password1": "stolen words 99", "password2": "stolen words 99"})
    user.refresh_from_db()
    assert user.check_password(PASSWORD)
    assert "_auth_user_id" not in client.session


def test_who_is_signed_in_under_another_address_is_told_before_he_joins(owner: User, team: Team) -> None:
    client = client_for(make_user("ben@example.com"))
    page = follow(client, invite(owner, team).token).content.decode()
    assert "You are signed in as ben@example.com" in page
    assert "meant for new@example.com" in page
    client.post("/join/")
    entry = AuditEntry.objects.get(action="invitation.accept")
    assert (entry.detail["email"], entry.detail["invited"]) == ("ben@example.com", "new@example.com")


def test_a_member_keeps_his_role_and_the_link_stays_good(owner: User, team: Team) -> None:
    member = make_member(team, "viewer")
    token = invite(owner, team, role="owner").token
    client = client_for(member)
    follow(client, token)
    assert "is in Ads ranking already" in client.post("/join/").content.decode()
    assert Membership.objects.get(user=member).role == "viewer"
    assert Invitation.objects.get().accepted_at is None


def test_a_link_that_is_over_or_wrong_is_refused_alike(owner: User, team: Team) -> None:
    expired, revoked = invite(owner, team, "one@example.com"), invite(owner, team, "two@example.com")
    Invitation.objects.filter(pk=expired.invitation.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    services.invitation_revoke(actor=Actor(owner), invitation=revoked.invitation)
    for token in (expired.token, revoked.token, "wrong"):
        answer = follow(Client(), token)
        assert answer.status_code == 404
        assert "accounts:usage:invitation-over" in answer.content.decode()


def test_one_that_ends_while_the_form_is_open_is_refused(owner: User, team: Team, client: Client) -> None:
    invited = invite(owner, team)
    follow(client, invited.token)
    services.invitation_revoke(actor=Actor(owner), invitation=invited.invitation)
    assert client.post("/join/", {"name": "B", "password1": PASSWORD, "password2": PASSWORD}).status_code == 404
    assert not User.objects.filter(email="new@example.com").exists()
    with pytest.raises(PlatformError) as caught:
        services.invitation_accept(actor=Actor(make_user()), invitation=invited.invitation)
    assert caught.value.id == "accounts:usage:invitation-over"


def test_it_is_good_for_a_week(owner: User, team: Team) -> None:
    invitation = invite(owner, team).invitation
    left = invitation.expires_at - timezone.now()
    assert timedelta(days=6, hours=23) < left <= timedelta(days=7)


def test_an_owner_revokes_from_the_page_and_another_teams_owner_cannot(owner: User, team: Team) -> None:
    invitation = invite(owner, team).invitation
    stranger = make_member(make_team("search"), "owner")
    address = f"/teams/{{}}/invitations/{invitation.pk}/revoke/"
    for slug in ("ads-ranking", "search"):
        assert client_for(stranger).post(address.format(slug)).status_code == 404
    assert client_for(owner).post(address.format("ads-ranking"))["Location"] == "/teams/ads-ranking/"
    invitation.refresh_from_db()
    assert invitation.revoked_at is not None
    assert "new@example.com" not in re.sub(
        "The invitation of .*? is", "", client_for(owner).get("/teams/ads-ranking/").content.decode()
    )
