"""Lists of teams, new teams, and a team's page."""

from __future__ import annotations

import pytest

from fuseworks.accounts.models import AuditEntry, Membership, Team
from tests.platform.factories import client_for, make_member, make_team, make_unit, make_user

pytestmark = pytest.mark.django_db


def test_the_list_has_ones_own_teams_by_unit_and_no_others() -> None:
    ads, search = make_unit("Ads"), make_unit("Search")
    user = make_user()
    for slug, unit, role in [("alpha", search, "viewer"), ("beta", ads, "owner"), ("gamma", ads, "member")]:
        make_member(make_team(slug, unit), role, user)
    make_member(make_team("delta", ads))
    text = client_for(user).get("/teams/").content.decode()
    places = [text.index(word) for word in (">Ads<", ">Beta<", ">Gamma<", ">Search<", ">Alpha<")]
    assert places == sorted(places)
    assert "Delta" not in text


def test_somebody_without_a_team_is_told_what_to_do() -> None:
    text = client_for(make_user()).get("/teams/").content.decode()
    assert "Ask the owner of a team to invite you" in text
    assert "/new-team/" not in text


@pytest.mark.parametrize(("role", "offered"), [("owner", True), ("maintainer", False), ("viewer", False)])
def test_a_teams_page_offers_its_forms_to_owners_only(role: str, offered: bool) -> None:
    team = make_team("ads-ranking")
    make_member(team, "owner", make_user("boss@example.com"))
    text = client_for(make_member(team, role)).get("/teams/ads-ranking/").content.decode()
    assert "boss@example.com" in text
    for address in ("/teams/ads-ranking/invite/", "/role/", "/remove/", "/teams/ads-ranking/audit/"):
        assert (address in text) == offered


def test_a_team_of_others_does_not_exist() -> None:
    make_team("search")
    client = client_for(make_member(make_team("ads-ranking"), "owner"))
    here, nowhere = client.get("/teams/search/"), client.get("/teams/nothing/")
    assert here.status_code == nowhere.status_code == 404
    assert "search" not in here.content.decode().lower().replace("/teams/search/", "")


def test_an_owner_makes_a_team_in_his_unit_and_owns_it() -> None:
    ads = make_unit("Ads")
    user = make_member(make_team(unit=ads), "owner")
    answer = client_for(user).post("/new-team/", {"business_unit": ads.pk, "name": "Ads retrieval"})
    assert answer["Location"] == "/teams/ads-retrieval/"
    team = Team.objects.get(slug="ads-retrieval")
    assert (team.business_unit, Membership.objects.get(team=team).user) == (ads, user)
    assert AuditEntry.objects.get(team=team).action == "team.create"


def test_not_in_a_unit_in_which_he_only_takes_part() -> None:
    ads, search = make_unit("Ads"), make_unit("Search")
    user = make_member(make_team(unit=ads), "owner")
    make_member(make_team(unit=search), "maintainer", user)
    client = client_for(user)
    assert "Search" not in client.get("/new-team/").content.decode()
    answer = client.post("/new-team/", {"business_unit": search.pk, "name": "Mine now"})
    assert 'id="id_business_unit_error"' in answer.content.decode()
    assert not Team.objects.filter(name="Mine now").exists()


@pytest.mark.parametrize("role", ["viewer", "member", "maintainer"])
def test_who_owns_no_team_makes_none(role: str) -> None:
    team = make_team()
    client = client_for(make_member(team, role))
    assert client.get("/new-team/").status_code == 403
    assert client.post("/new-team/", {"business_unit": team.business_unit.pk, "name": "N"}).status_code == 403


def test_a_name_that_the_unit_has_already_is_named_at_the_field() -> None:
    ads = make_unit("Ads")
    user = make_member(make_team(unit=ads, name="Ranking"), "owner")
    answer = client_for(user).post("/new-team/", {"business_unit": ads.pk, "name": "RANKING"})
    text = answer.content.decode()
    assert "Ads has a team called RANKING already" in text
    assert 'value="RANKING"' in text


@pytest.mark.parametrize(("name", "beginning"), [("Ranking", "ranking-"), ("排序", "team-"), ("!!!", "team-")])
def test_a_slug_that_is_taken_or_empty_gets_random_letters(name: str, beginning: str) -> None:
    make_team("ranking", name="Of others")  # of another unit, which he does not see
    ads = make_unit("Ads")
    user = make_member(make_team(unit=ads), "owner")
    client_for(user).post("/new-team/", {"business_unit": ads.pk, "name": name})
    slug = Team.objects.get(name=name).slug
    assert slug.startswith(beginning)
    assert len(slug) == len(beginning) + 6


def test_the_longest_name_makes_a_slug_that_fits() -> None:
    ads = make_unit("Ads")
    user = make_member(make_team(unit=ads), "owner")
    client_for(user).post("/new-team/", {"business_unit": ads.pk, "name": "x" * 80})
    assert len(Team.objects.get(name="x" * 80).slug) == 53
