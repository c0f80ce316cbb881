"""The whole life of a recipe over the API, and the same by the pages' forms."""

from __future__ import annotations

import pytest
import yaml

from fuseworks.recipes.models import RecipeVersion
from fuseworks.runs.models import Run
from optimizer.recipe.example import EXAMPLE
from tests.platform import factories
from tests.platform.recipes.documents import document

pytestmark = pytest.mark.django_db


def test_a_recipe_lives_by_the_api(team):
    api = factories.api_for(factories.make_token(factories.make_member(team, "owner")))
    saved = api.post("/api/v1/recipes/", {"team": "ads-ranking", "document": yaml.safe_dump(document())})
    assert saved.status_code == 201
    address = f"/api/v1/recipe-versions/{saved.json()['id']}/"
    edited = api.patch(address, {"document": document(summary="Now with a summary")})
    assert (edited.status_code, edited.json()["summary"]) == (200, "Now with a summary")
    assert api.post(f"{address}publish/", {"visibility": "company"}).json()["state"] == "published"
    (listed,) = api.get("/api/v1/recipes/").json()["results"]
    assert (listed["name"], listed["visibility"]) == ("din-split", "company")
    text = api.get(f"{address}recipe.yaml")
    assert yaml.safe_load(text.content)["metadata"]["summary"] == "Now with a summary"
    assert text.headers["Content-Disposition"] == 'attachment; filename="din-split-1.0.0.yaml"'
    refused = api.patch(address, {"document": document()})
    assert (refused.status_code, refused.json()["id"]) == (409, "recipes:usage:not-a-draft")
    derived = api.post(f"{address}derive/", {"team": "ads-ranking"})
    assert (derived.status_code, derived.json()["derived_from"]) == (201, saved.json()["id"])
    assert api.post(f"{address}deprecate/", {"reason": "superseded"}).json()["state"] == "deprecated"
    assert api.get("/api/v1/recipes/").json()["results"] == []
    detail = api.get(f"/api/v1/recipes/{saved.json()['recipe']}/").json()
    assert [v["state"] for v in detail["versions"]] == ["draft", "deprecated"]


def test_another_teams_name_is_as_unknown_as_none(team):
    factories.make_team("search-ranking")
    api = factories.api_for(factories.make_member(team, "owner"))
    for slug in ("search-ranking", "no-such-team"):
        answer = api.post("/api/v1/recipes/", {"team": slug, "document": document()})
        assert (answer.status_code, answer.json()["id"]) == (404, "core:usage:not-found")


def test_applying_starts_a_replay_of_ones_own_version(team):
    owner = factories.make_member(team, "owner")
    api = factories.api_for(owner)
    saved = api.post("/api/v1/recipes/", {"team": team.slug, "document": document()}).json()
    api.post(f"/api/v1/recipe-versions/{saved['id']}/publish/", {"visibility": "company"})
    other = factories.make_team("search-ranking")
    member = factories.make_member(other, "member")
    version = factories.make_version(factories.make_model(other))
    factories.make_workload(version)
    started = factories.api_for(member).post(
        f"/api/v1/recipe-versions/{saved['id']}/apply/", {"version": str(version.pk), "policy": {"budget_s": 120}}
    )
    assert started.status_code == 201
    run = Run.objects.get(pk=started.json()["id"])
    assert (run.purpose, run.team, str(run.recipe_version_id)) == ("replay", other, saved["id"])
    assert run.policy["budget_s"] == 120
    # his recipe's owner may not apply it to a stranger's model
    stranger = api.post(f"/api/v1/recipe-versions/{saved['id']}/apply/", {"version": str(version.pk)})
    assert stranger.status_code == 404


def test_the_pages_save_publish_and_apply(team):
    client = factories.client_for(factories.make_member(team, "owner"))
    made = client.post("/recipes/new/", {"team": team.slug, "document": yaml.safe_dump(document())}, follow=True)
    assert made.status_code == 200
    version = RecipeVersion.objects.get()
    body = made.content.decode()
    assert "Split target attention" in body and "split_target_attention" in body
    published = client.post(
        f"/recipe-versions/{version.pk}/publish/", {"visibility": "unit", "digest": version.digest}, follow=True
    )
    assert "Published" in published.content.decode()
    model_version = factories.make_version(factories.make_model(team, "My ranker"))
    factories.make_workload(model_version)
    page = client.get(f"/recipe-versions/{version.pk}/apply/")
    assert "My ranker v1" in page.content.decode()
    answer = client.post(f"/recipe-versions/{version.pk}/apply/", {"version": str(model_version.pk), "budget_s": "300"})
    assert answer.status_code == 302
    assert answer.headers["Location"] == f"/runs/{Run.objects.get(purpose='replay').pk}/"


def test_the_form_of_a_new_recipe_begins_with_an_example_that_can_be_saved_as_it_stands(team):
    client = factories.client_for(factories.make_member(team, "member"))
    form = client.get("/recipes/new/")
    assert form.context["text"] == EXAMPLE and "name: openvino-split-target-attention" in form.content.decode()
    assert client.post("/recipes/new/", {"team": team.slug, "document": EXAMPLE}).status_code == 302
    assert RecipeVersion.objects.get().recipe.name == "openvino-split-target-attention"
    assert client.post("/recipes/new/", {"team": team.slug}).status_code == 422  # nothing is no example


@pytest.mark.parametrize(
    ("metadata", "steps"),
    [
        ({"title": "a\0b"}, [{"backend": "openvino"}]),
        ({"version": f"1.0.0-{'a' * 25}"}, [{"backend": "openvino"}]),
        ({}, [{"backend": "b" * 41}]),
        ({}, [{"pass": "p" * 81}, {"backend": "openvino"}]),
    ],
)
def test_a_document_that_does_not_fit_its_columns_is_refused_with_the_field(team, metadata, steps):
    api = factories.api_for(factories.make_member(team, "member"))
    given = {**document(**metadata), "applies_to": {"target": {"kind": "cpu"}}, "steps": steps}
    for sent in (given, yaml.safe_dump(given)):
        answer = api.post("/api/v1/recipes/", {"team": team.slug, "document": sent})
        assert (answer.status_code, answer.json()["id"]) == (422, "recipes:user:invalid-document")
    assert not RecipeVersion.objects.exists()


def test_a_replay_may_be_given_one_minute(team):
    client = factories.client_for(factories.make_member(team, "owner"))
    client.post("/recipes/new/", {"team": team.slug, "document": EXAMPLE})
    model_version = factories.make_version(factories.make_model(team))
    factories.make_workload(model_version)
    address = f"/recipe-versions/{RecipeVersion.objects.get().pk}/apply/"
    assert '<option value="60">' in client.get(address).content.decode()
    assert client.post(address, {"version": str(model_version.pk), "budget_s": "60"}).status_code == 302
    assert Run.objects.get(purpose="replay").policy["budget_s"] == 60


def test_a_document_that_is_wrong_stays_in_the_form_with_the_reason(team):
    client = factories.client_for(factories.make_member(team, "member"))
    answer = client.post("/recipes/new/", {"team": team.slug, "document": "kind: Nonsense\nmy: text"})
    body = answer.content.decode()
    assert answer.status_code == 422
    assert "my: text" in body and "recipes:user:invalid-document" in body


def test_a_viewer_is_offered_nothing_that_he_may_not_do(team):
    owner = factories.client_for(factories.make_member(team, "owner"))
    owner.post("/recipes/new/", {"team": team.slug, "document": yaml.safe_dump(document())})
    version = RecipeVersion.objects.get()
    viewer = factories.client_for(factories.make_member(team, "viewer"))
    body = viewer.get(f"/recipes/{version.recipe_id}/").content.decode()
    assert f"/recipe-versions/{version.pk}/publish/" not in body
    assert viewer.post(f"/recipe-versions/{version.pk}/publish/", {"visibility": "team"}).status_code == 403
    version.refresh_from_db()
    assert version.state == "draft"


def finished_run(team, **fields):
    run = factories.make_run(factories.make_version(factories.make_model(team)), status="succeeded", **fields)
    factories.make_result(run, factories.result_document(recipe=document()))
    return run


def test_saving_what_a_run_found_tells_a_new_draft_from_a_version_that_was_there(team):
    owner = factories.make_member(team, "owner")
    api, page = factories.api_for(owner), factories.client_for(owner)
    run, again = finished_run(team), finished_run(team)
    saved = api.post(f"/api/v1/runs/{run.pk}/recipe/", {})
    assert (saved.status_code, saved.json()["state"]) == (201, "draft")
    assert api.post(f"/api/v1/runs/{run.pk}/recipe/", {}).status_code == 200
    told = page.post(f"/runs/{again.pk}/save-recipe/", follow=True).content.decode()
    assert "Your team has a draft with these very steps" in told
    api.post(f"/api/v1/recipe-versions/{saved.json()['id']}/publish/", {"visibility": "team"})
    told = page.post(f"/runs/{finished_run(team).pk}/save-recipe/", follow=True).content.decode()
    assert "Your team has a recipe with these very steps" in told
    assert "Saved as a draft" not in told


def test_a_draft_whose_steps_were_edited_still_says_which_run_it_came_from(team):
    owner = factories.make_member(team, "owner")
    api, run = factories.api_for(owner), finished_run(team)
    saved = api.post(f"/api/v1/runs/{run.pk}/recipe/", {}).json()
    other = {**document(), "steps": [{"pass": "split_target_attention"}, {"backend": "openvino"}]}
    assert api.patch(f"/api/v1/recipe-versions/{saved['id']}/", {"document": other}).status_code == 200
    page = factories.client_for(owner).get(f"/recipes/{saved['recipe']}/").content.decode()
    assert f'href="/runs/{run.pk}/"' in page
    assert "another team" not in page
