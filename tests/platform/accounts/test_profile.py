"""One's own name and language."""

from __future__ import annotations

import pytest

from tests.platform.factories import client_for, make_user

pytestmark = pytest.mark.django_db


def test_name_and_language_are_saved_and_the_page_speaks_it_at_once() -> None:
    user = make_user("ann@example.com")
    client = client_for(user)
    answer = client.post("/profile/", {"name": "Ann", "language": "zh-hans"})
    assert answer["Location"] == "/profile/"
    user.refresh_from_db()
    assert (user.name, user.language, str(user)) == ("Ann", "zh-hans", "Ann")
    assert '<html lang="zh-hans">' in client.get("/profile/").content.decode()


def test_no_language_means_what_the_browser_asks_for() -> None:
    client = client_for(make_user())
    client.post("/profile/", {"name": "", "language": "zh-hans"})
    client.post("/profile/", {"name": "", "language": ""})
    text = client.get("/profile/", headers={"accept-language": "en"}).content.decode()
    assert '<html lang="en">' in text


@pytest.mark.parametrize(("field", "value"), [("language", "tlh"), ("name", "x" * 101)])
def test_wrong_input_is_named_and_nothing_is_saved(field: str, value: str) -> None:
    user = make_user()
    answer = client_for(user).post("/profile/", {"name": "Ann", "language": "en", field: value})
    assert f'id="id_{field}_error"' in answer.content.decode()
    user.refresh_from_db()
    assert (user.name, user.language) == ("", "")


def test_the_address_is_shown_and_cannot_be_changed() -> None:
    user = make_user("ann@example.com")
    client = client_for(user)
    assert "ann@example.com" in client.get("/profile/").content.decode()
    client.post("/profile/", {"name": "A", "language": "", "email": "other@example.com"})
    user.refresh_from_db()
    assert user.email == "ann@example.com"


def test_a_name_is_text_and_nothing_else() -> None:
    client = client_for(make_user())
    client.post("/profile/", {"name": "<script>alert(1)</script>", "language": ""})
    assert "<script>alert" not in client.get("/profile/").content.decode()
