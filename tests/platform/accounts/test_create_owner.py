"""`manage.py create_owner`, the first step of an installation."""

from __future__ import annotations

import io

import pytest
from django.core.management import CommandError, call_command

from fuseworks.accounts.models import BusinessUnit, Membership, Team, User
from tests.platform.factories import PASSWORD, make_member, make_team, make_user

pytestmark = pytest.mark.django_db
ARGUMENTS = ["--unit", "Advertising", "--team", "Ads ranking"]


def create_owner(*arguments: str, password: str | None = None, monkeypatch: pytest.MonkeyPatch | None = None) -> str:
    out = io.StringIO()
    if password is not None and monkeypatch is not None:
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{password}\n"))
        arguments = (*arguments, "--password-stdin")
    call_command("create_owner", *ARGUMENTS, *arguments, stdout=out)
    return out.getvalue()


def test_it_makes_unit_team_and_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    said = create_owner("--email", "Ann@example.com", "--name", "Ann", password=PASSWORD, monkeypatch=monkeypatch)
    membership = Membership.objects.get()
    assert said == "ann@example.com owns Ads ranking (ads-ranking) of Advertising.\n"
    assert (membership.role, membership.team.slug, membership.team.business_unit.slug) == (
        "owner",
        "ads-ranking",
        "advertising",
    )
    user = membership.user
    assert (user.email, user.name, user.check_password(PASSWORD)) == ("ann@example.com", "Ann", True)
    assert (user.is_staff, user.is_superuser) == (False, False)


def test_it_asks_twice_for_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([PASSWORD, PASSWORD])
    monkeypatch.setattr("getpass.getpass", lambda prompt: next(answers))
    create_owner("--email", "ann@example.com")
    assert User.objects.get().check_password(PASSWORD)
    answers = iter([PASSWORD, "other"])
    with pytest.raises(CommandError, match="differ"):
        create_owner("--email", "ben@example.com")
    assert User.objects.count() == 1


@pytest.mark.parametrize("password", ["", "12345678901", "short"])
def test_it_refuses_a_weak_password_and_leaves_nothing_behind(password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError, match="not good enough"):
        create_owner("--email", "ann@example.com", password=password, monkeypatch=monkeypatch)
    assert (User.objects.count(), BusinessUnit.objects.count(), Team.objects.count()) == (0, 0, 0)


def test_it_refuses_an_address_that_is_none() -> None:
    with pytest.raises(CommandError, match="no e-mail address"):
        create_owner("--email", "ann")


def test_it_uses_what_is_there_and_gives_a_team_an_owner_again(monkeypatch: pytest.MonkeyPatch) -> None:
    create_owner("--email", "ann@example.com", password=PASSWORD, monkeypatch=monkeypatch)
    Membership.objects.update(role="viewer")
    said = create_owner("--email", "ANN@example.com")
    assert "its password is unchanged" in said
    assert (Team.objects.count(), BusinessUnit.objects.count(), User.objects.count()) == (1, 1, 1)
    assert Membership.objects.get().role == "owner"
    assert User.objects.get().check_password(PASSWORD)


def test_a_unit_of_that_name_is_the_one_that_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = BusinessUnit.objects.create(name="advertising", slug="ads")
    make_member(make_team("taken", unit, name="Other"), "owner", make_user("ben@example.com"))
    create_owner("--email", "ann@example.com", password=PASSWORD, monkeypatch=monkeypatch)
    assert Team.objects.get(name="Ads ranking").business_unit == unit
