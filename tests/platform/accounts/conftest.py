"""What tests of people share: an owner, mail that is sent at once, a count of failed sign-ins to switch on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import override_settings

from fuseworks.accounts import mail
from fuseworks.accounts.models import Team, User
from tests.platform.factories import make_member, make_user


@pytest.fixture(autouse=True)
def mail_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this thread: another one would not see the test's own transaction."""

    def now(work: Callable[[], None]) -> None:
        work()

    monkeypatch.setattr(mail, "later", now)


@pytest.fixture
def owner(team: Team) -> User:
    return make_member(team, "owner", make_user("owner@example.com", name="Ann"))


@pytest.fixture
def three_tries() -> object:
    with override_settings(AXES_ENABLED=True, AXES_FAILURE_LIMIT=3):
        yield
