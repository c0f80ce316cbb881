"""What tests of people share: mail is sent at once, and the count of failed sign-ins can be switched on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import override_settings

from fuseworks.accounts import mail


@pytest.fixture(autouse=True)
def mail_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this thread: another one would not see the test's own transaction."""

    def now(work: Callable[[], None]) -> None:
        work()

    monkeypatch.setattr(mail, "later", now)


@pytest.fixture
def three_tries() -> object:
    with override_settings(AXES_ENABLED=True, AXES_FAILURE_LIMIT=3):
        yield
