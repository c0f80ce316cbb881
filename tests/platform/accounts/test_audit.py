"""A team's audit log: for its owners, a page at a time, filtered, and as CSV."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from typing import Any

import pytest

from fuseworks.accounts.models import AuditEntry, Team, User
from tests.platform.factories import api_for, client_for, make_member, make_team, make_token, make_user

pytestmark = pytest.mark.django_db
ADDRESS = "/teams/ads-ranking/audit/"


@pytest.fixture
def team() -> Team:
    return make_team("ads-ranking")


@pytest.fixture
def owner(team: Team) -> User:
    return make_member(team, "owner", make_user("owner@example.com", name="Olga"))


def note(team: Team, action: str, day: int = 1, **fields: Any) -> AuditEntry:
    entry = AuditEntry.objects.create(team=team, action=action, **fields)
    AuditEntry.objects.filter(pk=entry.pk).update(created_at=datetime(2026, 3, day, 12, 0, tzinfo=UTC))
    return entry


def shown(owner: User, query: str = "") -> str:
    return client_for(owner).get(ADDRESS + query).content.decode()


def rows(owner: User, query: str = "") -> list[dict[str, str]]:
    answer = client_for(owner).get(f"{ADDRESS}?format=csv{query}")
    assert answer["Content-Disposition"] == 'attachment; filename="ads-ranking-audit.csv"'
    return list(csv.DictReader(b"".join(answer.streaming_content).decode().splitlines()))


def test_the_newest_hundred_stand_on_the_first_page_and_the_rest_on_the_next(team: Team, owner: User) -> None:
    for number in range(101):
        AuditEntry.objects.create(team=team, action=f"thing.{number}.done", detail={"email": "<b>x</b>"})
    AuditEntry.objects.create(team=make_team(), action="secret.other")
    first, second = shown(owner), shown(owner, "?page=2")
    assert "thing.100.done" in first and "thing.1.done" in first
    assert "thing.0.done" not in first and "thing.0.done" in second
    assert "secret.other" not in first + second
    assert "&lt;b&gt;x&lt;/b&gt;" in first


@pytest.mark.parametrize("role", ["viewer", "member", "maintainer"])
@pytest.mark.parametrize("query", ["", "?format=csv"])
def test_it_is_not_for_others(team: Team, role: str, query: str) -> None:
    answer = client_for(make_member(team, role)).get(ADDRESS + query)
    assert answer.status_code == 403
    assert f"is {role}; this needs owner" in answer.content.decode()


def test_it_is_filtered_by_what_who_and_day(team: Team, owner: User) -> None:
    note(team, "recipe.publish", 1, actor=owner)
    note(team, "member.remove", 2, actor=make_user("ben@example.com"))
    note(team, "member.leave", 3, actor=owner)
    asked = {
        "&what=member.": ["member.leave", "member.remove"],
        "&who=olga": ["member.leave", "recipe.publish"],
        "&who=ben@": ["member.remove"],
        "&since=2026-03-02": ["member.leave", "member.remove"],
        "&until=2026-03-02": ["member.remove", "recipe.publish"],
        "&since=2026-03-02&until=2026-03-02": ["member.remove"],
        "&what=run.": [],
    }
    assert {query: [row["action"] for row in rows(owner, query)] for query in asked} == asked
    text = shown(owner, "?what=run.")
    assert "Nothing that fits was noted" in text and "member.leave" not in text


def test_a_day_that_is_none_is_told_at_the_field_and_exports_nothing(team: Team, owner: User) -> None:
    note(team, "recipe.publish")
    answer = client_for(owner).get(f"{ADDRESS}?since=yesterday&format=csv")
    assert answer["Content-Type"].startswith("text/html")
    assert 'id="id_since_error"' in answer.content.decode()


def test_the_table_has_moments_names_and_details_and_no_formula(team: Team, owner: User) -> None:
    note(team, "=cmd()", 5, actor=owner, detail={"b": 1, "a": "ä"}, address="192.0.2.7")
    note(team, "version.expire", 4)
    first, second = rows(owner)
    assert first == {
        "at": "2026-03-05T12:00:00+00:00",
        "who": "Olga",
        "email": "owner@example.com",
        "action": "'=cmd()",
        "object_type": "",
        "object_id": "",
        "detail": '{"a": "ä", "b": 1}',
        "address": "192.0.2.7",
    }
    assert (second["who"], second["email"], second["address"]) == ("", "", "")


def test_who_closed_his_account_has_no_address_in_the_table(team: Team, owner: User) -> None:
    gone = make_user("9@closed.invalid", is_active=False, closed_at=datetime(2026, 3, 1, tzinfo=UTC))
    note(team, "recipe.publish", actor=gone)
    (row,) = rows(owner)
    assert (row["who"], row["email"]) == ("closed account", "")


def test_the_api_lists_it_for_owners_and_for_tokens_that_manage(team: Team, owner: User) -> None:
    note(team, "recipe.publish", 1, actor=owner)
    note(team, "member.leave", 2, actor=owner)
    found = api_for(make_token(owner)).get("/api/v1/teams/ads-ranking/audit/?what=recipe").json()["results"]
    assert [(row["action"], row["who"]) for row in found] == [("recipe.publish", "Olga")]
    refused = api_for(make_token(owner, scopes=("read",))).get("/api/v1/teams/ads-ranking/audit/")
    assert (refused.status_code, refused.json()["id"]) == (403, "core:usage:token-scope")
    assert api_for(owner).get("/api/v1/teams/ads-ranking/audit/?since=x").status_code == 400
