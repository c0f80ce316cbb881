"""Sample accounts: in embedded mode, on the first start, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from fuseworks.accounts.authentication import token_sha256
from fuseworks.accounts.models import ApiToken, BusinessUnit, Membership, Team, User
from fuseworks.core.management.commands import samples

pytestmark = pytest.mark.django_db


def test_outside_embedded_mode_no_account_is_made(tmp_path: Path):
    with pytest.raises(CommandError, match="embedded mode only"):
        call_command("samples", file=tmp_path / "sign-in.json")
    assert User.objects.count() == 0
    assert not (tmp_path / "sign-in.json").exists()


def test_two_units_with_two_teams_each(tmp_path: Path, settings: Any):
    settings.EMBEDDED = True
    call_command("samples", file=tmp_path / "sign-in.json")
    assert sorted(BusinessUnit.objects.values_list("slug", flat=True)) == ["advertising", "search"]
    assert Team.objects.count() == 4
    assert sorted(Membership.objects.filter(team__slug="ads-ranking").values_list("role", flat=True)) == [
        "member",
        "owner",
    ]
    document = json.loads((tmp_path / "sign-in.json").read_text())
    member = User.objects.get(email="ads-ranking-member@example.com")
    assert member.check_password(document["password"])
    assert not User.objects.filter(is_superuser=True).exists()
    token = ApiToken.objects.get()
    assert token.token_sha256 == token_sha256(document["demo"]["token"])
    assert (token.name, token.user, token.scopes) == ("demo", member, ["read", "submit", "recipes"])
    assert [path.name for path in tmp_path.iterdir()] == ["sign-in.json"]
    assert (tmp_path / "sign-in.json").stat().st_mode & 0o777 == 0o600


def test_the_passwords_are_written_before_the_accounts_are_committed(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
):
    settings.EMBEDDED = True

    def full(descriptor: int) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(samples.os, "fsync", full)
        with pytest.raises(OSError, match="no space left"):
            call_command("samples", file=tmp_path / "sign-in.json")
    assert not User.objects.exists()
    call_command("samples", file=tmp_path / "sign-in.json")  # the draft that was left is in nobody's way
    assert User.objects.get(email="search-ranking-owner@example.com").check_password(
        json.loads((tmp_path / "sign-in.json").read_text())["password"]
    )


def test_a_kill_between_commit_and_rename_loses_no_password(tmp_path: Path, settings: Any):
    settings.EMBEDDED = True
    file, draft = tmp_path / "sign-in.json", tmp_path / "sign-in.json.new"
    call_command("samples", file=file)
    before = file.read_text()
    file.rename(draft)
    call_command("samples", file=file)
    assert file.read_text() == before
    assert not draft.exists()


def test_a_draft_that_was_never_committed_is_not_taken_up(tmp_path: Path, settings: Any):
    settings.EMBEDDED = True
    User.objects.create_user("someone@example.com", "a-good-password-9")
    draft = tmp_path / "sign-in.json.new"
    draft.write_text(json.dumps({"demo": {"token": "fw_of-another-database"}}))
    call_command("samples", file=tmp_path / "sign-in.json")
    assert not (tmp_path / "sign-in.json").exists()


def test_an_installation_that_has_accounts_is_left_alone(tmp_path: Path, settings: Any):
    settings.EMBEDDED = True
    User.objects.create_user("someone@example.com", "a-good-password-9")
    call_command("samples", file=tmp_path / "sign-in.json")
    assert User.objects.count() == 1
    assert not (tmp_path / "sign-in.json").exists()
