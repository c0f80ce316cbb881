"""docs/operating.md and .env.example name the settings that there are, with the defaults that they have."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.compose import ROOT

SETTINGS = ROOT / "platform" / "fuseworks" / "settings"
GUIDE = (ROOT / "docs" / "operating.md").read_text()
ROWS = {
    name: [cell.strip() for cell in row.split("|")[2:4]]
    for row in GUIDE.splitlines()
    if row.startswith("| `")
    for name in re.findall(r"`([A-Z][A-Z_]+)`", row.split("|")[1])
}
# how the table writes what the code counts in bytes
WRITTEN = {8 << 30: "8 GiB", 16 << 30: "16 GiB", 100 << 30: "100 GiB"}


def read_in(folder: Path) -> set[str]:
    text = "\n".join(path.read_text() for path in folder.glob("*.py"))
    return set(re.findall(r'"((?:FUSEWORKS_|DATABASE_URL|REDIS_URL)\w*)"', text))


def test_every_setting_of_the_site_is_in_the_guide() -> None:
    assert read_in(SETTINGS) - {"FUSEWORKS_HOSTS"} <= set(ROWS)
    assert "FUSEWORKS_HOSTS" in ROWS


def test_every_setting_of_a_worker_is_in_the_guide() -> None:
    text = (ROOT / "workers" / "settings.py").read_text()
    assert set(re.findall(r"\"(FUSEWORKS_\w+|REDIS_URL)\"", text)) <= set(ROWS)


@pytest.mark.parametrize(
    ("name", "default"), re.findall(r'number\("(\w+)", ([\d< ]+)\)', (SETTINGS / "base.py").read_text())
)
def test_the_guide_tells_the_default_that_a_number_has(name: str, default: str) -> None:
    first, _, shift = default.partition("<<")
    value = int(first) << int(shift or 0)
    assert ROWS[name][0].split(":")[0] == WRITTEN.get(value, str(value))


def test_whatever_compose_passes_on_is_in_the_example() -> None:
    passed = set(re.findall(r"\$\{(FUSEWORKS_\w+)", (ROOT / "docker-compose.yml").read_text()))
    example = (ROOT / ".env.example").read_text()
    assert [name for name in sorted(passed) if name not in example] == []


def test_what_is_said_of_a_site_without_a_mail_server_is_what_it_does(settings: Any, capsys: Any) -> None:
    from fuseworks.accounts import mail

    settings.EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"  # what no host means
    mail.send(to="a@example.com", template="accounts/mail/invitation", context={"token": "secret"})
    assert not mail.configured()
    assert capsys.readouterr() == ("", "")
    assert ROWS["FUSEWORKS_EMAIL_HOST"][0] == "none: nothing is sent"
    assert "without a host none is sent" in (ROOT / ".env.example").read_text()
