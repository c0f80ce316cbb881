"""Mail leaves beside the request, in a thread of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import current_thread

import pytest
from django.core import mail as django_mail
from django.test import override_settings

from fuseworks.accounts import mail

CONTEXT = {"team": "A & B\nBcc: x@example.com", "role": "member", "inviter": "Ann <b>", "token": "abc", "days": 1}


def test_it_is_sent_in_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the fixture that sends at once
    threads = []
    with ThreadPoolExecutor(max_workers=1) as sender:
        monkeypatch.setattr(mail, "_sender", sender)
        mail.later(lambda: threads.append(current_thread()))
    assert len(threads) == 1
    assert threads[0] is not current_thread()


def test_names_are_written_as_they_are_and_make_no_further_header() -> None:
    with override_settings(PUBLIC_URL="https://fuseworks.example/"):
        mail.send(to="new@example.com", template="accounts/mail/invitation", context=CONTEXT)
    (message,) = django_mail.outbox
    assert message.subject == "Ann <b> invites you to A & B Bcc: x@example.com on Fuseworks"
    assert message.recipients() == ["new@example.com"]
    assert "https://fuseworks.example/invitations/abc/" in message.body
    assert "good once, for 1 day." in message.body
