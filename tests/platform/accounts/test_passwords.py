"""Changing a password and resetting a forgotten one."""

from __future__ import annotations

import re

import pytest
from django.core import mail as django_mail
from django.test import Client, override_settings

from fuseworks.accounts import mail
from fuseworks.accounts.models import ApiToken, AuditEntry, User
from tests.platform.factories import PASSWORD, api_for, client_for, make_team, make_token, make_user

pytestmark = pytest.mark.django_db
NEW = "another sentence that nobody guesses 8"


def change(client: Client, old: str = PASSWORD, new: str = NEW, again: str | None = None, **fields: str):  # type: ignore[no-untyped-def]
    return client.post(
        "/change-password/",
        {"old_password": old, "new_password1": new, "new_password2": new if again is None else again, **fields},
    )


def ask(client: Client, email: str):  # type: ignore[no-untyped-def]
    return client.post("/reset-password/", {"email": email})


def link_in_mail() -> str:
    (address,) = re.findall(r"http://testserver(/reset-password/\S+)", django_mail.outbox[-1].body)
    return address


def test_changing_it_ends_other_sessions_and_keeps_this_one() -> None:
    user = make_user()
    here, elsewhere = client_for(user), client_for(user)
    assert change(here)["Location"] == "/profile/"
    assert here.get("/profile/").status_code == 200
    assert elsewhere.get("/profile/")["Location"].startswith("/sign-in/")
    user.refresh_from_db()
    assert user.check_password(NEW)


@pytest.mark.parametrize(
    ("old", "new", "again", "field", "said"),
    [
        ("wrong", NEW, NEW, "old_password", "old password was entered incorrectly"),
        (PASSWORD, NEW, "different words 9", "new_password2", "didn’t match"),
        (PASSWORD, "12345678901", "12345678901", "new_password2", "entirely numeric"),
        (PASSWORD, "password1", "password1", "new_password2", "too common"),
    ],
)
def test_it_refuses_and_names_the_field(old: str, new: str, again: str, field: str, said: str) -> None:
    user = make_user()
    answer = change(client_for(user), old, new, again)
    text = answer.content.decode()
    assert answer.status_code == 200
    assert said in re.search(rf'id="id_{field}_error">(.*?)</div></div>', text, re.DOTALL)[1]  # type: ignore[index]
    user.refresh_from_db()
    assert user.check_password(PASSWORD)


def test_changing_it_keeps_tokens_unless_told_otherwise() -> None:
    user = make_user()
    token = make_token(user)
    client = client_for(user)
    change(client)
    assert api_for(token).get("/api/v1/me/").status_code == 200
    change(client, NEW, PASSWORD, revoke_tokens="on")
    assert api_for(token).get("/api/v1/me/").status_code == 401


def test_both_ways_are_noted_with_the_callers_address(client: Client) -> None:
    user = make_user("ann@example.com")
    change(client_for(user))
    ask(client, "ann@example.com")
    entries = AuditEntry.objects.filter(actor=user).order_by("created_at")
    assert [(e.action, e.address) for e in entries] == [
        ("password.change", "127.0.0.1"),
        ("password.ask_reset", "127.0.0.1"),
    ]


def test_the_link_in_the_mail_sets_a_new_one_and_is_good_once(client: Client) -> None:
    user = make_user("ann@example.com")
    before = client_for(user)
    assert ask(client, "Ann@example.com")["Location"] == "/reset-password/sent/"
    assert django_mail.outbox[0].to == ["ann@example.com"]
    link = link_in_mail()
    form = client.get(link, follow=True)
    assert form.redirect_chain == [(re.sub(r"[^/]+/$", "set-password/", link), 302)]
    answer = client.post(form.request["PATH_INFO"], {"new_password1": NEW, "new_password2": NEW})
    assert answer["Location"] == "/sign-in/"
    user.refresh_from_db()
    assert user.check_password(NEW)
    assert "_auth_user_id" not in client.session  # whoever has the link still has to sign in
    assert before.get("/profile/").status_code == 302
    assert "This link is no longer good" in Client().get(link, follow=True).content.decode()


def test_a_reset_revokes_tokens_where_ticked_and_it_is_ticked_at_first(client: Client) -> None:
    user = make_user("ann@example.com")
    token = make_token(user)
    ask(client, "ann@example.com")
    form = client.get(link_in_mail(), follow=True)
    assert re.search(r'name="revoke_tokens"[^>]*\bchecked', form.content.decode())
    client.post(form.request["PATH_INFO"], {"new_password1": NEW, "new_password2": NEW, "revoke_tokens": "on"})
    assert api_for(token).get("/api/v1/me/").status_code == 401


def test_whether_there_is_an_account_is_not_told(client: Client) -> None:
    make_user("ann@example.com")
    make_user("closed@example.com", is_active=False)
    answers = [ask(client, email) for email in ("ann@example.com", "nobody@example.com", "closed@example.com")]
    assert {(a.status_code, a["Location"], a.content) for a in answers} == {(302, "/reset-password/sent/", b"")}
    assert [m.to for m in django_mail.outbox] == [["ann@example.com"]]


def test_the_mail_is_sent_beside_the_request(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that a mail server takes would tell who has an account."""
    make_user("ann@example.com")
    put_off = []
    monkeypatch.setattr(mail, "later", put_off.append)
    ask(client, "ann@example.com")
    assert (len(put_off), django_mail.outbox) == (1, [])


def test_the_link_leads_to_the_sites_own_address_whatever_the_request_called_it(client: Client) -> None:
    make_user("ann@example.com")
    with override_settings(ALLOWED_HOSTS=["*"], PUBLIC_URL="https://fuseworks.example/"):
        client.post("/reset-password/", {"email": "ann@example.com"}, headers={"host": "evil.example"})
    body = django_mail.outbox[0].body
    assert "https://fuseworks.example/reset-password/" in body
    assert "evil" not in body


def test_nobodys_mailbox_is_filled(client: Client) -> None:
    make_user("ann@example.com")
    answers = [ask(client, "ann@example.com").status_code for _ in range(7)]
    assert answers == [302] * 7
    assert len(django_mail.outbox) == 5


def test_the_mail_is_in_the_language_of_its_reader(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    make_user("ann@example.com", language="zh-hans")
    asked = []
    monkeypatch.setattr(mail, "send", lambda **given: asked.append(given["language"]))
    ask(client, "ann@example.com")
    assert asked == ["zh-hans"]


@pytest.mark.parametrize("backend", sorted(mail.UNSENT))
def test_a_site_without_a_mail_server_sends_nothing_and_says_how_else(
    client: Client, backend: str, capfd: pytest.CaptureFixture[str]
) -> None:
    make_user("ann@example.com")
    with override_settings(EMAIL_BACKEND=backend):
        assert "manage.py changepassword" in client.get("/reset-password/").content.decode()
        ask(client, "ann@example.com")
    assert "reset-password" not in "".join(capfd.readouterr())  # a link in the log is a password in the log


def test_a_mail_server_that_fails_is_logged_without_the_link(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: object) -> None:
        raise OSError("the mail server does not answer")

    make_user("ann@example.com")
    monkeypatch.setattr("fuseworks.accounts.mail.EmailMultiAlternatives.send", fail)
    assert ask(client, "ann@example.com").status_code == 302
    assert "the mail server does not answer" in caplog.text
    assert "/reset-password/" not in caplog.text


def test_a_reset_lets_one_in_again_who_was_locked_out(client: Client) -> None:
    user = make_user("ann@example.com")
    with override_settings(AXES_ENABLED=True, AXES_FAILURE_LIMIT=2):
        for _ in range(2):
            client.post("/sign-in/", {"username": "ann@example.com", "password": "wrong"})
        assert client.post("/sign-in/", {"username": user.email, "password": PASSWORD}).status_code == 429
        ask(client, "ann@example.com")
        form = client.get(link_in_mail(), follow=True)
        client.post(form.request["PATH_INFO"], {"new_password1": NEW, "new_password2": NEW})
        assert client.post("/sign-in/", {"username": user.email, "password": NEW}).status_code == 302


def test_the_passwords_hash_is_a_slow_one_outside_of_tests() -> None:
    from fuseworks.settings import base

    assert base.PASSWORD_HASHERS == ["django.contrib.auth.hashers.Argon2PasswordHasher"]


def test_tokens_of_others_stay(client: Client) -> None:
    ann, ben = make_user(), make_user()
    make_token(ben, make_team())
    change(client_for(ann), revoke_tokens="on")
    assert ApiToken.objects.get(user=ben).revoked_at is None
    assert User.objects.get(pk=ben.pk).check_password(PASSWORD)
