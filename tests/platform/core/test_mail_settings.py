"""How mail goes out: by the environment alone. Each case is a process of its own, as settings are read once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from fuseworks.settings.environment import mail_security

NAMES = ("BACKEND", "HOST", "PORT", "HOST_USER", "HOST_PASSWORD", "USE_TLS", "USE_SSL")


def settings_of(**environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FUSEWORKS_EMAIL")}
    program = f"""
import json
from fuseworks.settings import base
print(json.dumps([getattr(base, "EMAIL_" + name) for name in {NAMES!r}]))
"""
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**kept, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
    )


def read(answer: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert answer.returncode == 0, answer.stderr
    return dict(zip(NAMES, json.loads(answer.stdout), strict=True))


def test_without_a_host_mail_goes_to_the_log() -> None:
    assert read(settings_of())["BACKEND"].endswith("console.EmailBackend")


def test_an_account_with_a_password_sends_over_tls() -> None:
    found = read(
        settings_of(
            FUSEWORKS_EMAIL_HOST="mail.example",
            FUSEWORKS_EMAIL_TLS="starttls",
            FUSEWORKS_EMAIL_USER="fuseworks",
            FUSEWORKS_EMAIL_PASSWORD="a-password",
        )
    )
    assert found == {
        "BACKEND": "django.core.mail.backends.smtp.EmailBackend",
        "HOST": "mail.example",
        "PORT": 587,
        "HOST_USER": "fuseworks",
        "HOST_PASSWORD": "a-password",
        "USE_TLS": True,
        "USE_SSL": False,
    }


def test_a_password_in_clear_is_refused() -> None:
    answer = settings_of(FUSEWORKS_EMAIL_HOST="mail.example", FUSEWORKS_EMAIL_PASSWORD="a-password")
    assert answer.returncode != 0
    assert "set FUSEWORKS_EMAIL_TLS" in answer.stderr
    assert "a-password" not in answer.stderr


@pytest.mark.parametrize(
    ("tls", "port", "found"),
    [
        ("", "", (25, False, False)),
        ("none", "", (25, False, False)),
        ("starttls", "2525", (2525, True, False)),
        ("tls", "", (465, False, True)),
    ],
)
def test_the_port_follows_unless_it_is_given(
    monkeypatch: pytest.MonkeyPatch, tls: str, port: str, found: tuple[int, bool, bool]
) -> None:
    monkeypatch.setenv("TLS", tls)
    monkeypatch.setenv("PORT", port)
    assert mail_security("TLS", "PORT") == found


def test_a_misspelt_kind_of_tls_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TLS", "1")
    with pytest.raises(ImproperlyConfigured) as caught:
        mail_security("TLS", "PORT")
    assert "TLS is one of none, starttls, tls, not '1'" in str(caught.value)
