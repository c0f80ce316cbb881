"""The pages that publish and deprecate ask once, say who will see what, and take a deprecation back."""

from __future__ import annotations

import pytest

from fuseworks.accounts.permissions import Actor
from fuseworks.recipes import services
from fuseworks.recipes.models import Recipe, RecipeVersion
from tests.platform.factories import api_for, client_for, make_member, make_team, make_unit
from tests.platform.recipes.documents import document

pytestmark = pytest.mark.django_db


@pytest.fixture
def team():
    return make_team("ads-ranking", make_unit("Ads"))


@pytest.fixture
def owner(team):
    return make_member(team, "owner")


@pytest.fixture
def draft(team, owner) -> RecipeVersion:
    return services.recipe_save(actor=Actor(owner), team=team, document=document())


def text(client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def test_the_recipes_page_publishes_nothing_by_itself(draft, owner):
    shown = text(client_for(owner), f"/recipes/{draft.recipe_id}/")
    assert f'href="/recipe-versions/{draft.pk}/publish/"' in shown
    assert f'action="/recipe-versions/{draft.pk}/publish/"' not in shown


def test_the_question_says_who_will_see_it(draft, owner):
    shown = text(client_for(owner), f"/recipe-versions/{draft.pk}/publish/")
    for told in (
        "seen by the members of Ads ranking.",
        "seen by everybody who is in a team of Ads.",
        "seen by everybody who is in any team of this site.",
        "The document never changes any more",
        "Deprecate it, which can be taken back too",
    ):
        assert told in shown
    draft.refresh_from_db()
    assert draft.state == "draft"


def test_a_maintainer_is_not_offered_the_company_and_a_member_is_asked_nothing(draft, team):
    shown = text(client_for(make_member(team, "maintainer")), f"/recipe-versions/{draft.pk}/publish/")
    assert 'value="unit"' in shown and 'value="company"' not in shown
    assert client_for(make_member(team, "member")).get(f"/recipe-versions/{draft.pk}/publish/").status_code == 403


def test_a_further_version_is_not_offered_less_far_than_the_recipe_reaches(draft, owner, team):
    services.version_publish(actor=Actor(owner), recipe_version=draft, visibility="company")
    second = services.recipe_save(actor=Actor(owner), team=team, document=document(version="1.1.0"))
    shown = text(client_for(owner), f"/recipe-versions/{second.pk}/publish/")
    assert 'value="company"' in shown and 'value="unit"' not in shown
    assert "a further version never narrows it" in shown
    shown = text(client_for(make_member(team, "maintainer")), f"/recipe-versions/{second.pk}/publish/")
    assert "only an owner of the team publishes a further version" in shown and 'type="radio"' not in shown


def test_what_is_published_already_is_not_asked_about(draft, owner):
    services.version_publish(actor=Actor(owner), recipe_version=draft, visibility="team")
    assert client_for(owner).get(f"/recipe-versions/{draft.pk}/publish/").status_code == 409


def test_deprecating_asks_for_the_reason_and_says_what_stays(draft, owner):
    client, address = client_for(owner), f"/recipe-versions/{draft.pk}/deprecate/"
    assert client.get(address).status_code == 409
    services.version_publish(actor=Actor(owner), recipe_version=draft, visibility="unit")
    shown = text(client, address)
    assert "by everybody who is in a team of Ads." in shown and "You can take it back" in shown
    without = client.post(address, {"reason": "  "})
    assert without.status_code == 422 and "Say why" in without.content.decode()
    draft.refresh_from_db()
    assert draft.state == "published"
    assert "The catalog no longer offers it" in client.post(address, {"reason": "slow"}, follow=True).content.decode()
    draft.refresh_from_db()
    assert (draft.state, draft.deprecation_reason) == ("deprecated", "slow")


def test_a_deprecation_is_taken_back_on_the_page_and_by_the_api(draft, owner):
    actor, client = Actor(owner), client_for(owner)
    services.version_publish(actor=actor, recipe_version=draft, visibility="unit")
    services.version_deprecate(actor=actor, recipe_version=draft, reason="slow")
    address = f"/recipe-versions/{draft.pk}/undeprecate/"
    shown = text(client, f"/recipes/{draft.recipe_id}/?version={draft.pk}")
    assert f'action="{address}"' in shown and "offers it again, to everybody who is in a team of Ads." in shown
    assert "The catalog offers it again." in client.post(address, follow=True).content.decode()
    services.version_deprecate(actor=actor, recipe_version=draft, reason="slow")
    assert api_for(owner).post(f"/api/v1{address}").json()["state"] == "published"
    again = api_for(owner).post(f"/api/v1{address}")
    assert (again.status_code, again.json()["id"]) == (409, "recipes:usage:not-deprecated")


def test_a_publication_by_mistake_is_withdrawn_from_those_who_were_not_meant(draft, owner):
    """Deprecated, and found by the team alone again: the page offers both."""
    other = make_member(make_team("search"), "viewer")
    services.version_publish(actor=Actor(owner), recipe_version=draft, visibility="company")
    assert client_for(other).get(f"/recipes/{draft.recipe_id}/").status_code == 200
    services.version_deprecate(actor=Actor(owner), recipe_version=draft, reason="by mistake")
    client = client_for(owner)
    assert f'action="/recipes/{draft.recipe_id}/visibility/"' in text(client, f"/recipes/{draft.recipe_id}/")
    client.post(f"/recipes/{draft.recipe_id}/visibility/", {"visibility": "team"})
    assert Recipe.objects.get().visibility == "team"
    assert client_for(other).get(f"/recipes/{draft.recipe_id}/").status_code == 404


def test_deleting_a_draft_asks_once(draft, owner):
    shown = text(client_for(owner), f"/recipes/{draft.recipe_id}/")
    assert '<summary class="btn btn-outline-danger">Delete the draft</summary>' in shown
    assert "Yes, delete it for ever" in shown
