"""A run shows what it found to all of its team: so nothing goes into it that not all of them may see. And what is
narrowed later, or whoever is removed later, is heeded at the next look."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from fuseworks.accounts.models import ApiToken, Membership, Team, User
from fuseworks.accounts.permissions import Actor
from fuseworks.core.errors import PlatformError
from fuseworks.recipes.models import Recipe, RecipeState, RecipeVersion
from fuseworks.recipes.selectors import seen_by_all_of
from fuseworks.recipes.services import recipe_derive, recipe_save
from fuseworks.results.services import measure_side_by_side, not_measurable
from fuseworks.runs.models import Run
from fuseworks.runs.services import run_create
from tests.platform.factories import (
    api_for,
    client_for,
    make_member,
    make_model,
    make_result,
    make_run,
    make_team,
    make_token,
    make_unit,
    make_user,
    make_version,
    make_workload,
)
from tests.platform.recipes.documents import document

pytestmark = pytest.mark.django_db


class Two:
    """Somebody who may do everything in both teams; team A's recipe and model, team B's model; a viewer of B."""

    def __init__(self) -> None:
        self.a, self.b = make_team("team-a", make_unit("Ads")), make_team("team-b", make_unit("Search"))
        self.both = make_member(self.a, "owner")
        make_member(self.b, "owner", self.both)
        self.viewer = make_member(self.b, "viewer")
        self.version_a, self.version_b = (make_version(make_model(team)) for team in (self.a, self.b))
        for version in (self.version_a, self.version_b):
            make_workload(version)
        self.recipe = recipe_save(
            actor=Actor(self.both), team=self.a, document=document("hidden-steps", title="Hidden title")
        )

    def share(self, visibility: str) -> None:
        RecipeVersion.objects.filter(pk=self.recipe.pk).update(state=RecipeState.PUBLISHED, published_at=timezone.now())
        Recipe.objects.filter(pk=self.recipe.recipe_id).update(visibility=visibility)
        self.recipe = RecipeVersion.objects.select_related("recipe__team").get(pk=self.recipe.pk)

    def replay(self) -> Run:
        return run_create(actor=Actor(self.both), version=self.version_b, purpose="replay", recipe_version=self.recipe)


@pytest.fixture
def two() -> Two:
    return Two()


def refused(call: Any) -> PlatformError:
    with pytest.raises(PlatformError) as caught:
        call()
    return caught.value


@pytest.mark.parametrize("visibility", ["draft", "team", "unit"])
def test_a_recipe_that_not_all_of_the_runs_team_may_see_is_not_replayed_there(two: Two, visibility: str) -> None:
    if visibility != "draft":
        two.share(visibility)
    error = refused(two.replay)
    assert (error.id, error.status, error.place) == ("runs:usage:recipe-not-shared", 409, "recipe_version")
    assert "Derive a draft of it in Team b" in error.remedy
    assert not Run.objects.exists()


def test_one_that_all_may_see_is(two: Two) -> None:
    two.share("company")
    assert two.replay().recipe_document["metadata"]["name"] == "hidden-steps"


def test_a_recipe_for_the_unit_is_replayed_by_every_team_of_it_and_by_no_other(two: Two) -> None:
    sister = make_team("team-c", two.a.business_unit)
    two.share("unit")
    assert [two.recipe in seen_by_all_of(team) for team in (two.a, sister, two.b)] == [True, True, False]


def test_the_remedy_works_a_derived_draft_is_replayed(two: Two) -> None:
    two.recipe = recipe_derive(actor=Actor(two.both), recipe_version=two.recipe, team=two.b)
    assert two.replay().recipe_version == two.recipe


def test_the_form_offers_models_only_of_teams_that_see_the_recipe(two: Two) -> None:
    text = client_for(two.both).get(f"/recipe-versions/{two.recipe.pk}/apply/").content.decode()
    assert str(two.version_a.pk) in text and str(two.version_b.pk) not in text
    answer = api_for(two.both).post(
        f"/api/v1/recipe-versions/{two.recipe.pk}/apply/", {"version": str(two.version_b.pk)}
    )
    assert (answer.status_code, answer.json()["id"]) == (409, "runs:usage:recipe-not-shared")


def test_a_recipe_that_was_narrowed_since_is_named_by_no_page_of_the_run(two: Two) -> None:
    two.share("company")
    run = two.replay()
    Run.objects.filter(pk=run.pk).update(status="succeeded", attempt=1)
    make_result(Run.objects.get(pk=run.pk))
    pages = [f"/runs/{run.pk}/", f"/runs/{run.pk}/comparison/", "/runs/", "/"]
    before = client_for(two.viewer).get(pages[0]).content.decode()
    assert "Hidden title" in before and str(two.recipe.pk) in before
    two.share("team")
    for page in pages:
        text = client_for(two.viewer).get(page).content.decode()
        assert [one for one in ("Hidden title", "hidden-steps", str(two.recipe.pk)) if one in text] == [], page
    assert "a recipe of another team" in client_for(two.viewer).get(pages[0]).content.decode()
    for address in (f"/api/v1/runs/{run.pk}/", f"/api/v1/runs/{run.pk}/result/"):
        assert str(two.recipe.pk) not in api_for(two.viewer).get(address).content.decode()
    assert "Hidden title" in client_for(two.both).get(pages[0]).content.decode()


def test_a_recipe_derived_from_one_that_the_reader_may_not_see_does_not_lead_to_it(two: Two) -> None:
    derived = recipe_derive(actor=Actor(two.both), recipe_version=two.recipe, team=two.b)
    address = f"/api/v1/recipe-versions/{derived.pk}/"
    assert api_for(two.both).get(address).json()["derived_from"] == str(two.recipe.pk)
    assert api_for(two.viewer).get(address).json()["derived_from"] is None
    (listed,) = api_for(two.viewer).get("/api/v1/recipes/?state=any").json()["results"]
    assert listed["derived_from"] is None
    assert str(two.recipe.pk) not in client_for(two.viewer).get(f"/recipes/{derived.recipe_id}/").content.decode()


def test_a_version_of_another_team_is_not_compared_with(two: Two) -> None:
    def compare() -> None:
        run_create(actor=Actor(two.both), version=two.version_b, purpose="compare", against=two.version_a)

    error = refused(compare)
    assert (error.id, error.status, error.place) == ("runs:usage:other-teams-version", 409, "against")
    assert "Upload that file to Team b too" in error.remedy
    asked = {"version": str(two.version_b.pk), "purpose": "compare", "against": str(two.version_a.pk)}
    assert api_for(two.both).post("/api/v1/runs/", asked).json()["id"] == "runs:usage:other-teams-version"
    # whoever may not see it is told nothing of it
    asked = {"version": str(two.version_a.pk), "purpose": "compare", "against": str(two.version_b.pk)}
    assert api_for(make_member(two.a, "member")).post("/api/v1/runs/", asked).status_code == 404


def test_runs_of_two_teams_stand_beside_each_other_and_are_not_measured_so(two: Two) -> None:
    runs = [make_run(version, status="succeeded") for version in (two.version_a, two.version_b)]
    for run in runs:
        make_result(run)
    assert "of two teams" in str(not_measurable(*runs))
    error = refused(lambda: measure_side_by_side(actor=Actor(two.both), first=runs[0], second=runs[1]))
    assert error.id == "results:usage:not-measurable"
    address = f"/comparisons/?runs={runs[0].pk},{runs[1].pk}"
    assert "they are of two teams" in client_for(two.both).get(address).content.decode()
    assert client_for(two.viewer).get(address).status_code == 404


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("how", "status"), [("removed", 404), ("revoked", 401)])
def test_who_is_removed_while_he_waits_for_events_is_told_no_more(how: str, status: int) -> None:
    team = make_team()
    member = make_member(team, "member", make_user())
    run = make_run(make_version(make_model(team)), status="running")
    api, answers = api_for(make_token(member)), []

    def wait() -> None:
        answers.append(api.get(f"/api/v1/runs/{run.pk}/events/?wait=20"))
        connection.close()

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.3)
    end(how, member, team)
    Run.objects.filter(pk=run.pk).update(status="succeeded")  # which ends the wait
    thread.join(timeout=60)
    assert [answer.status_code for answer in answers] == [status]


def end(how: str, member: User, team: Team) -> None:
    if how == "removed":
        Membership.objects.filter(user=member, team=team).delete()
    else:
        ApiToken.objects.filter(user=member).update(revoked_at=timezone.now())
