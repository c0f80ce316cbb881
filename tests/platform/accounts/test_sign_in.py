"""Signing in and out: who gets in, what failures tell, where one lands."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.platform.factories import PASSWORD, client_for, make_user

pytestmark = pytest.mark.django_db
WRONG = "The e-mail address or the password is wrong."


def sign_in(client: Client, email: str, password: str = PASSWORD, **fields: str):  # type: ignore[no-untyped-def]
    return client.post("/sign-in/", {"username": email, "password": password, **fields})


def signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def test_address_and_password_let_one_in_whatever_the_case_of_the_address(client: Client) -> None:
    make_user("ann@example.com")
    answer = sign_in(client, "Ann@Example.COM")
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert signed_in(client)


def test_an_unknown_address_a_wrong_password_and_a_closed_account_look_alike(client: Client) -> None:
    make_user("ann@example.com")
    make_user("closed@example.com", is_active=False)
    others = [("nobody@example.com", PASSWORD), ("closed@example.com", PASSWORD)]
    tries = [("ann@example.com", "words that are not his"), *others]
    for email, password in tries:
        answer = sign_in(client, email, password)
        text = answer.content.decode()
        assert (answer.status_code, signed_in(client)) == (200, False)
        assert WRONG in text
        assert f'value="{email}"' in text  # what was typed stays
        assert password not in text


def test_an_unknown_address_costs_as_much_work_as_a_known_one(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    make_user("ann@example.com")
    hashed = []
    from django.contrib.auth.hashers import MD5PasswordHasher

    encode = MD5PasswordHasher.encode
    monkeypatch.setattr(MD5PasswordHasher, "encode", lambda *a, **k: hashed.append(1) or encode(*a, **k))
    sign_in(client, "ann@example.com", "wrong")
    known = len(hashed)
    sign_in(client, "nobody@example.com", "wrong")
    assert known >= 1
    assert len(hashed) - known == known


def test_the_session_gets_a_new_id_so_that_one_planted_before_is_worth_nothing(client: Client) -> None:
    make_user("ann@example.com")
    session = client.session
    session["planted"] = True
    session.save()
    before = session.session_key
    client.cookies["sessionid"] = before
    sign_in(client, "ann@example.com")
    assert client.cookies["sessionid"].value != before
    assert Client(headers={"cookie": f"sessionid={before}"}).get("/teams/").status_code == 302


@pytest.mark.parametrize(
    "next_",
    ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)", "http:///evil.example"],
)
def test_it_leads_to_no_other_site(client: Client, next_: str) -> None:
    make_user("ann@example.com")
    assert sign_in(client, "ann@example.com", next=next_)["Location"] == "/"


def test_it_leads_back_to_the_page_that_was_asked_for(client: Client) -> None:
    make_user("ann@example.com")
    page = client.get("/sign-in/?next=/teams/").content.decode()
    assert '<input type="hidden" name="next" value="/teams/">' in page
    assert sign_in(client, "ann@example.com", next="/teams/")["Location"] == "/teams/"


@pytest.mark.parametrize("next_", ["", "?next=/sign-in/"])
def test_who_is_signed_in_needs_no_form(next_: str) -> None:
    answer = client_for(make_user()).get(f"/sign-in/{next_}")
    assert (answer.status_code, answer["Location"]) == (302, "/")


def test_a_form_of_another_site_cannot_sign_anybody_in_or_out() -> None:
    make_user("ann@example.com")
    strict = Client(enforce_csrf_checks=True)
    assert sign_in(strict, "ann@example.com").status_code == 403
    strict.force_login(make_user())
    assert strict.post("/sign-out/").status_code == 403
    assert signed_in(strict)


def test_signing_out_needs_a_form_and_ends_the_session() -> None:
    client = client_for(make_user())
    assert client.get("/sign-out/").status_code == 405
    assert signed_in(client)
    answer = client.post("/sign-out/", {"next": "https://evil.example/"})
    assert answer["Location"] == "/sign-in/"
    assert not signed_in(client)


def test_the_language_of_the_account_is_the_one_of_the_pages(client: Client) -> None:
    make_user("ann@example.com", language="zh-hans")
    sign_in(client, "ann@example.com")
    assert '<html lang="zh-hans">' in client.get("/teams/").content.decode()


@pytest.mark.usefixtures("three_tries")
def test_the_third_failure_locks_out_even_the_right_password(client: Client) -> None:
    make_user("ann@example.com")
    assert [sign_in(client, "ann@example.com", "wrong").status_code for _ in range(3)] == [200, 200, 429]
    answer = sign_in(client, "ann@example.com")
    assert answer.status_code == 429
    assert answer["Retry-After"] == "900"
    assert "Wait 15 minutes" in answer.content.decode()
    assert not signed_in(client)


@pytest.mark.usefixtures("three_tries")
def test_another_case_of_the_address_gives_no_further_tries(client: Client) -> None:
    make_user("ann@example.com")
    for email in ("ann@example.com", "ANN@example.com", "Ann@Example.com"):
        sign_in(client, email, "wrong")
    assert sign_in(client, "aNN@example.com").status_code == 429


@pytest.mark.usefixtures("three_tries")
def test_an_address_without_an_account_is_locked_out_alike(client: Client) -> None:
    answers = [sign_in(client, "nobody@example.com", "wrong") for _ in range(4)]
    assert [a.status_code for a in answers] == [200, 200, 429, 429]


@pytest.mark.usefixtures("three_tries")
def test_one_who_is_locked_out_locks_out_nobody_else(client: Client) -> None:
    make_user("ann@example.com")
    make_user("ben@example.com")
    for _ in range(3):
        sign_in(client, "ann@example.com", "wrong")
    assert sign_in(client, "ben@example.com").status_code == 302
    elsewhere = Client(REMOTE_ADDR="10.1.2.3")
    assert sign_in(elsewhere, "ann@example.com").status_code == 302


@pytest.mark.usefixtures("three_tries")
def test_success_forgets_the_failures_before(client: Client) -> None:
    make_user("ann@example.com")
    for _ in range(2):
        sign_in(client, "ann@example.com", "wrong")
    sign_in(client, "ann@example.com")
    client.logout()
    assert [sign_in(client, "ann@example.com", "wrong").status_code for _ in range(2)] == [200, 200]


@pytest.mark.usefixtures("three_tries")
def test_the_password_that_was_tried_is_neither_logged_nor_stored(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    from axes.models import AccessAttempt

    caplog.set_level("DEBUG")
    sign_in(client, "ann@example.com", "a-secret-word")
    attempt = AccessAttempt.objects.get()
    assert attempt.failures_since_start == 1
    assert "a-secret-word" not in caplog.text + attempt.post_data + attempt.get_data
