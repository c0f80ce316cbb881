"""Drafts, publishing, deprecation, deriving: who may, and what never changes."""

from __future__ import annotations

import pytest
from django.db import connection

from fuseworks.accounts.models import AuditEntry
from fuseworks.accounts.permissions import Actor
from fuseworks.core.errors import PlatformError
from fuseworks.recipes import services
from fuseworks.recipes.models import Evidence, Recipe, RecipeVersion
from fuseworks.recipes.selectors import CatalogQuery, catalog, evidence_of, with_best_gain
from fuseworks.runs.services import run_create
from optimizer.recipe.document import digest, parse
from optimizer.result import Result
from tests.platform import factories
from tests.platform.recipes.documents import document

pytestmark = pytest.mark.django_db


def as_(team, role: str) -> Actor:
    return Actor(factories.make_member(team, role))


def save(team, role: str = "member", **changes) -> RecipeVersion:
    return services.recipe_save(actor=as_(team, role), team=team, document=document(**changes))


def refused(call, **arguments) -> PlatformError:
    with pytest.raises(PlatformError) as caught:
        call(**arguments)
    return caught.value


def test_a_draft_knows_what_its_document_says(team):
    saved = save(team)
    assert (saved.recipe.name, saved.version, saved.state) == ("din-split", "1.0.0", "draft")
    assert (saved.target_kind, saved.mode, saved.backend) == ("cpu", "inference", "aot_inductor")
    assert saved.passes == ["split_target_attention"]
    assert saved.digest == digest(parse(document()))
    assert AuditEntry.objects.get(action="recipe.save").detail["name"] == "din-split"


def test_a_viewer_saves_nothing(team):
    error = refused(services.recipe_save, actor=as_(team, "viewer"), team=team, document=document())
    assert (error.id, error.status) == ("core:usage:forbidden", 403)
    assert Recipe.objects.count() == 0


def test_a_bad_document_names_the_field(team):
    wrong = document()
    wrong["steps"] = [{"pass": "split_target_attention"}]
    error = refused(services.recipe_save, actor=as_(team, "member"), team=team, document=wrong)
    assert (error.id, error.status) == ("recipes:user:invalid-document", 422)
    assert "backend" in error.message


@pytest.mark.parametrize("text", ["/etc/hostname", "pyproject.toml", "", "- a\n- b", "a: &x 1\nb: *x"])
def test_a_text_is_never_taken_for_a_file_of_this_host(team, text: str):
    error = refused(services.recipe_save, actor=as_(team, "member"), team=team, document=text)
    assert error.id == "recipes:user:invalid-document"
    assert "fuseworks" not in error.message


def test_the_very_same_document_is_not_saved_twice(team):
    first = save(team)
    error = refused(services.recipe_save, actor=as_(team, "member"), team=team, document=document())
    assert error.id == "recipes:usage:exists"
    assert error.extra == {"recipe": str(first.recipe_id), "recipe_version": str(first.pk)}


def test_a_taken_version_is_refused(team):
    save(team)
    error = refused(
        services.recipe_save, actor=as_(team, "member"), team=team, document=document(summary="another text")
    )
    assert error.id == "recipes:usage:version-taken"
    assert RecipeVersion.objects.count() == 1


def test_a_member_does_not_publish_and_a_maintainer_does(team):
    saved = save(team)
    error = refused(services.version_publish, actor=as_(team, "member"), recipe_version=saved, visibility="team")
    assert error.context["needed"] == "maintainer"
    published = services.version_publish(actor=as_(team, "maintainer"), recipe_version=saved, visibility="unit")
    assert published.state == "published" and published.published_at is not None
    assert Recipe.objects.get().visibility == "unit"


def test_only_an_owner_publishes_to_the_company(team):
    saved = save(team)
    error = refused(services.version_publish, actor=as_(team, "maintainer"), recipe_version=saved, visibility="company")
    assert error.context["needed"] == "owner"
    services.version_publish(actor=as_(team, "owner"), recipe_version=saved, visibility="company")
    assert Recipe.objects.get().visibility == "company"


def test_an_unknown_visibility_is_refused(team):
    error = refused(
        services.version_publish, actor=as_(team, "owner"), recipe_version=save(team), visibility="everybody"
    )
    assert error.id == "recipes:usage:visibility"


def test_what_is_published_never_changes(team):
    saved = save(team)
    owner = as_(team, "owner")
    services.version_publish(actor=owner, recipe_version=saved, visibility="team")
    for call, arguments in (
        (services.draft_edit, {"document": document(summary="new")}),
        (services.draft_delete, {}),
        (services.version_publish, {"visibility": "team"}),
    ):
        assert refused(call, actor=owner, recipe_version=saved, **arguments).id == "recipes:usage:not-a-draft"
    assert RecipeVersion.objects.get().summary == ""


def test_a_draft_may_be_edited_and_renamed(team):
    saved = save(team)
    edited = services.draft_edit(
        actor=as_(team, "member"), recipe_version=saved, document=document("din-faster", "2.0.0", summary="S")
    )
    assert (edited.recipe.name, edited.version, edited.summary) == ("din-faster", "2.0.0", "S")
    assert list(Recipe.objects.values_list("name", flat=True)) == ["din-faster"]


def test_deleting_the_only_draft_deletes_the_recipe(team):
    services.draft_delete(actor=as_(team, "member"), recipe_version=save(team))
    assert Recipe.objects.count() == 0


def test_deprecating_asks_for_a_published_version(team):
    saved = save(team)
    owner = as_(team, "owner")
    error = refused(services.version_deprecate, actor=owner, recipe_version=saved, reason="slow")
    assert error.id == "recipes:usage:not-published"
    services.version_publish(actor=owner, recipe_version=saved, visibility="team")
    done = services.version_deprecate(actor=owner, recipe_version=saved, reason="slow on AVX2")
    assert (done.state, done.deprecation_reason) == ("deprecated", "slow on AVX2")


def test_a_deprecation_is_taken_back_and_the_catalog_offers_it_again(team):
    saved, maintainer = save(team), as_(team, "maintainer")
    services.version_publish(actor=maintainer, recipe_version=saved, visibility="unit")
    published_at = saved.published_at
    services.version_deprecate(actor=maintainer, recipe_version=saved, reason="slow on AVX2")
    assert not catalog(actor=maintainer, query=CatalogQuery()).exists()
    again = services.version_undeprecate(actor=maintainer, recipe_version=saved)
    assert (again.state, again.deprecation_reason, again.deprecated_at) == ("published", "", None)
    assert (again.published_at, Recipe.objects.get().visibility) == (published_at, "unit")
    assert catalog(actor=maintainer, query=CatalogQuery()).get() == saved
    assert AuditEntry.objects.get(action="recipe.undeprecate").detail == {"reason": "slow on AVX2"}


def test_only_what_is_deprecated_is_taken_back_and_by_maintainers(team):
    saved, owner = save(team), as_(team, "owner")
    assert refused(services.version_undeprecate, actor=owner, recipe_version=saved).id == "recipes:usage:not-deprecated"
    services.version_publish(actor=owner, recipe_version=saved, visibility="team")
    services.version_deprecate(actor=owner, recipe_version=saved, reason="slow")
    error = refused(services.version_undeprecate, actor=as_(team, "member"), recipe_version=saved)
    assert error.context["needed"] == "maintainer"


def test_a_further_version_of_a_recipe_for_the_company_needs_an_owner_however_it_is_asked_for(team):
    services.version_publish(actor=as_(team, "owner"), recipe_version=save(team), visibility="company")
    second = save(team, version="1.1.0")
    for visibility in ("team", "company"):
        error = refused(
            services.version_publish, actor=as_(team, "maintainer"), recipe_version=second, visibility=visibility
        )
        assert error.context["needed"] == "owner"
    services.version_publish(actor=as_(team, "owner"), recipe_version=second, visibility="team")
    assert (Recipe.objects.get().visibility, second.state) == ("company", "published")
    assert AuditEntry.objects.filter(action="recipe.publish").latest("created_at").detail["visibility"] == "company"


def test_a_derived_draft_names_its_source(team):
    saved = save(team)
    other = factories.make_team("search-ranking")
    derived = services.recipe_derive(actor=as_(other, "member"), recipe_version=saved, team=other)
    assert derived.derived_from == saved
    assert derived.document["metadata"]["derived_from"] == "din-split@1.0.0"
    assert derived.recipe.team == other and derived.version == "1.0.0"


def test_deriving_from_ones_own_takes_the_next_version(team):
    saved = save(team, version="1.4.2")
    derived = services.recipe_derive(actor=as_(team, "member"), recipe_version=saved, team=team)
    assert derived.version == "1.5.0"


@pytest.fixture
def finished(team):
    """An optimize run that left a recipe: 2.00x [1.90, 2.10]."""
    model = factories.make_model(team)
    model.family = "ranking"
    model.save()
    run = factories.make_run(factories.make_version(model), status="succeeded")
    factories.make_result(run, factories.result_document(recipe=document()))
    return run


def test_one_click_saves_what_a_run_found_with_the_run_as_evidence(team, finished):
    saved = services.recipe_save_from_run(actor=as_(team, "member"), run=finished).version
    assert (saved.state, saved.source_run) == ("draft", finished)
    evidence = Evidence.objects.get()
    assert (evidence.recipe_version, evidence.outcome, evidence.family) == (saved, "faster", "ranking")
    assert (evidence.speedup, evidence.speedup_low, evidence.speedup_high) == (2.0, 1.9, 2.1)


def test_a_second_click_finds_the_same_draft(team, finished):
    member = as_(team, "member")
    first = services.recipe_save_from_run(actor=member, run=finished)
    assert first.is_new
    assert services.recipe_save_from_run(actor=member, run=finished) == (first.version, False)
    assert Evidence.objects.count() == 1


def test_the_next_run_that_finds_other_steps_saves_the_next_version(team, finished):
    member = as_(team, "member")
    services.recipe_save_from_run(actor=member, run=finished)
    second = factories.make_run(finished.version, status="succeeded")
    other = {**document(), "steps": [{"pass": "split_target_attention"}, {"backend": "openvino"}]}
    factories.make_result(second, factories.result_document(recipe=other))
    assert services.recipe_save_from_run(actor=member, run=second).version.version == "1.1.0"


def test_the_next_run_that_finds_the_same_steps_is_more_evidence_of_the_same_version(team, finished):
    member = as_(team, "member")
    first = services.recipe_save_from_run(actor=member, run=finished)
    second = factories.make_run(finished.version, status="succeeded")
    factories.make_result(second, factories.result_document(recipe=document(summary="found again")))
    assert services.recipe_save_from_run(actor=member, run=second) == (first.version, False)
    assert evidence_of(recipe_version=first.version).count() == 2


@pytest.mark.parametrize(
    ("fields", "document_", "words"),
    [
        ({"status": "succeeded"}, {"recipe": None}, "nothing faster was found"),
        ({"status": "running"}, None, "it is not over yet"),
        ({"status": "succeeded", "purpose": "replay"}, {"recipe": document()}, "its purpose is replay"),
    ],
)
def test_a_run_without_a_recipe_says_why(team, fields, document_, words: str):
    run = factories.make_run(factories.make_version(factories.make_model(team)), **fields)
    if document_ is not None:
        factories.make_result(run, factories.result_document(**document_))
    error = refused(services.recipe_save_from_run, actor=as_(team, "member"), run=run)
    assert error.id == "recipes:usage:no-recipe"
    assert words in error.message


def test_the_search_column_holds_the_words_of_name_and_passes(team):
    save(team)
    with connection.cursor() as cursor:
        cursor.execute("SELECT search FROM recipes_recipeversion")
        words = cursor.fetchone()[0]
    for word in ("split", "attention", "din", "inductor"):
        assert f"'{word}'" in words


def test_a_draft_that_was_edited_keeps_no_evidence_of_other_steps(team, finished):
    member = as_(team, "member")
    saved = services.recipe_save_from_run(actor=member, run=finished).version
    renamed = services.draft_edit(
        actor=member,
        recipe_version=saved,
        document={**document(), "metadata": {**document()["metadata"], "title": "T"}},
    )
    assert evidence_of(recipe_version=renamed).count() == 1  # the plan is the same
    other = {**document(), "steps": [{"pass": "split_target_attention"}, {"backend": "openvino"}]}
    edited = services.draft_edit(actor=member, recipe_version=saved, document=other)
    assert not evidence_of(recipe_version=edited).exists()
    assert with_best_gain(RecipeVersion.objects.filter(pk=edited.pk)).get().best_gain is None


def test_a_replay_is_of_the_document_as_it_was_when_it_was_started(team):
    owner = as_(team, "owner")
    saved = services.recipe_save(actor=owner, team=team, document=document())
    version = factories.make_version(factories.make_model(team))
    run = run_create(actor=owner, version=version, purpose="replay", recipe_version=saved)
    services.draft_edit(
        actor=owner,
        recipe_version=saved,
        document={**document(), "steps": [{"pass": "split_target_attention"}, {"backend": "openvino"}]},
    )
    run.refresh_from_db()
    assert run.recipe_document["steps"][-1] == {"backend": "aot_inductor"}
    services.evidence_record(run=run, result=Result.model_validate(factories.result_document(purpose="replay")))
    assert Evidence.objects.count() == 1
    saved.refresh_from_db()
    assert not evidence_of(recipe_version=saved).exists()


def test_a_draft_with_runs_is_not_deleted(team):
    owner = as_(team, "owner")
    saved = services.recipe_save(actor=owner, team=team, document=document())
    version = factories.make_version(factories.make_model(team))
    run_create(actor=owner, version=version, purpose="replay", recipe_version=saved)
    assert refused(services.draft_delete, actor=owner, recipe_version=saved).id == "recipes:usage:in-use"
    assert RecipeVersion.objects.count() == 1


def test_a_draft_edited_since_one_looked_is_not_published(team):
    owner = as_(team, "owner")
    seen = services.recipe_save(actor=owner, team=team, document=document())
    looked_at = seen.digest
    services.draft_edit(actor=owner, recipe_version=seen, document=document(summary="another"))
    error = refused(services.version_publish, actor=owner, recipe_version=seen, visibility="team", digest=looked_at)
    assert error.id == "recipes:usage:edited"
    seen.refresh_from_db()
    assert seen.state == "draft"


def test_publishing_a_further_version_to_fewer_narrows_nothing(team):
    owner, maintainer = as_(team, "owner"), as_(team, "maintainer")
    first = services.recipe_save(actor=owner, team=team, document=document())
    services.version_publish(actor=owner, recipe_version=first, visibility="company")
    second = services.recipe_save(actor=owner, team=team, document=document(version="1.1.0", summary="newer"))
    services.version_publish(actor=owner, recipe_version=second, visibility="team")
    recipe = Recipe.objects.get()
    assert recipe.visibility == "company"
    error = refused(services.visibility_change, actor=maintainer, recipe=recipe, visibility="team")
    assert error.context["needed"] == "owner"
