"""The catalog: what each reader finds, facets with their counts, and addresses that carry the search."""

from __future__ import annotations

import pytest

from fuseworks.accounts.permissions import Actor
from fuseworks.recipes import selectors, services
from fuseworks.recipes.models import Evidence, RecipeVersion
from fuseworks.recipes.selectors import CatalogQuery
from tests.platform import factories
from tests.platform.recipes.documents import document

pytestmark = pytest.mark.django_db


@pytest.fixture
def units():
    """Two units; the first has two teams."""
    ads, search = factories.make_unit("Advertising"), factories.make_unit("Search")
    return {
        "ranking": factories.make_team("ads-ranking", ads),
        "retrieval": factories.make_team("ads-retrieval", ads),
        "search": factories.make_team("search-ranking", search),
    }


def publish(team, visibility: str, **changes) -> RecipeVersion:
    owner = Actor(factories.make_member(team, "owner"))
    steps = changes.pop("steps", None)
    text = document(**changes)
    if steps is not None:
        text = {**text, "steps": steps, "applies_to": {"target": {"kind": "cpu"}}}
    version = services.recipe_save(actor=owner, team=team, document=text)
    return services.version_publish(actor=owner, recipe_version=version, visibility=visibility)


def shown(team, version: RecipeVersion, outcome: str, low: float) -> None:
    """Evidence of this outcome, whose interval begins at `low`."""
    run = factories.make_run(factories.make_version(factories.make_model(team)), purpose="replay", status="succeeded")
    Evidence.objects.create(
        recipe_version=version,
        plan_digest=version.plan_digest,
        run=run,
        model_version=run.version,
        family="ranking",
        outcome=outcome,
        speedup=low + 0.1,
        speedup_low=low,
        speedup_high=low + 0.2,
        target="cpu",
    )


def names(actor: Actor, **query) -> list[str]:
    return [v.recipe.name for v in selectors.catalog(actor=actor, query=CatalogQuery(**query))]


@pytest.mark.parametrize(
    ("reader", "found"),
    [
        ("ranking", ["for-company", "for-team", "for-unit"]),
        ("retrieval", ["for-company", "for-unit"]),
        ("search", ["for-company"]),
    ],
)
def test_visibility_reaches_as_far_as_it_says(units, reader: str, found: list[str]):
    for visibility in ("team", "unit", "company"):
        publish(units["ranking"], visibility, name=f"for-{visibility}")
    actor = Actor(factories.make_member(units[reader], "viewer"))
    assert names(actor, sort="name") == found


def test_whoever_is_in_no_team_finds_nothing(units):
    publish(units["ranking"], "company")
    assert names(Actor(factories.make_user())) == []


def test_a_token_without_the_read_scope_finds_nothing(units):
    version = publish(units["ranking"], "company")
    user = factories.make_member(units["search"], "owner")
    token = factories.make_token(user, scopes=("submit",))
    answer = factories.api_for(token).get(f"/api/v1/recipe-versions/{version.pk}/")
    assert (answer.status_code, answer.json()["id"]) == (403, "core:usage:token-scope")


def test_drafts_are_their_teams_alone(units):
    owner = Actor(factories.make_member(units["ranking"], "owner"))
    draft = services.recipe_save(actor=owner, team=units["ranking"], document=document())
    assert names(owner, state="draft") == ["din-split"]
    colleague = factories.make_member(units["retrieval"], "owner")
    assert names(Actor(colleague), state="draft") == []
    for address in (f"/recipes/{draft.recipe_id}/", f"/recipe-versions/{draft.pk}/edit/"):
        assert factories.client_for(colleague).get(address).status_code == 404


def test_only_the_newest_fitting_version_is_listed(units):
    publish(units["ranking"], "company", version="1.0.0")
    publish(units["ranking"], "company", version="1.1.0", summary="newer")
    actor = Actor(factories.make_member(units["search"], "viewer"))
    assert [v.version for v in selectors.catalog(actor=actor, query=CatalogQuery())] == ["1.1.0"]


def test_words_are_found_in_passes_and_names(units):
    publish(units["ranking"], "company", name="din-split")
    publish(
        units["ranking"],
        "company",
        name="dlrm-merge",
        title="Tables",
        steps=[{"pass": "merge_embedding_tables"}, {"backend": "onnxruntime"}],
    )
    actor = Actor(factories.make_member(units["search"], "viewer"))
    assert names(actor, q="embedding") == ["dlrm-merge"]
    assert names(actor, q="attention") == ["din-split"]
    assert names(actor, q="nothing-like-it") == []
    assert names(actor, q="'); DROP TABLE recipes_recipe; --") == []


def test_facets_count_with_the_other_facets_applied(units):
    publish(units["ranking"], "company", name="a")
    publish(units["ranking"], "company", name="b", steps=[{"backend": "openvino"}])
    publish(units["search"], "company", name="c", steps=[{"backend": "openvino"}])
    actor = Actor(factories.make_member(units["search"], "viewer"))
    facets = selectors.facets(actor=actor, query=CatalogQuery(backend="openvino"))
    assert facets["backend"] == [("openvino", 2), ("aot_inductor", 1)]
    assert facets["unit"] == [("advertising", 1), ("search", 1)]
    assert facets["pass"] == []
    assert facets["target"] == [("cpu", 2)]


def test_gain_is_the_best_lower_bound_of_a_faster_outcome(units):
    version = publish(units["ranking"], "company", name="a")
    publish(units["ranking"], "company", name="b", summary="no evidence")
    for outcome, low in (("faster", 1.3), ("faster", 1.7), ("same", 5.0)):
        shown(units["ranking"], version, outcome, low)
    actor = Actor(factories.make_member(units["search"], "viewer"))
    (best, none) = selectors.catalog(actor=actor, query=CatalogQuery(sort="gain"))
    assert (best.best_gain, none.best_gain) == (1.7, None)
    assert names(actor, min_gain=1.7) == ["a"]
    assert names(actor, min_gain=1.71) == []


def test_a_gain_asked_for_counts_in_the_other_facets_too(units):
    shown(units["ranking"], publish(units["ranking"], "company", name="a"), "faster", 1.3)
    publish(units["search"], "company", name="b", steps=[{"backend": "openvino"}])
    facets = selectors.facets(
        actor=Actor(factories.make_member(units["search"], "viewer")), query=CatalogQuery(min_gain=1.2)
    )
    assert (facets["backend"], facets["unit"]) == ([("aot_inductor", 1)], [("advertising", 1)])


def test_a_newer_version_without_evidence_does_not_hide_one_that_gained(units):
    first = publish(units["ranking"], "company", name="a")
    shown(units["ranking"], first, "faster", 1.3)
    publish(units["ranking"], "company", name="a", version="1.1.0", steps=[{"backend": "openvino"}])
    actor = Actor(factories.make_member(units["search"], "viewer"))
    found = {
        gain: [str(v.version) for v in selectors.catalog(actor=actor, query=CatalogQuery(min_gain=gain))]
        for gain in (None, 1.2)
    }
    assert found == {None: ["1.1.0"], 1.2: ["1.0.0"]}


def test_the_page_keeps_the_search_in_its_address(units):
    publish(units["ranking"], "company")
    client = factories.client_for(factories.make_member(units["search"], "viewer"))
    answer = client.get("/catalog/?q=attention&backend=aot_inductor")
    body = answer.content.decode()
    assert answer.status_code == 200
    assert 'value="attention"' in body
    assert "Split target attention" in body
    assert "?q=attention" in body  # leaving the facet keeps the words


@pytest.mark.parametrize("query", ["min_gain=much", "state=lost", "sort=colour"])
def test_a_wrong_parameter_is_a_400_that_names_it(units, query: str):
    user = factories.make_member(units["search"], "viewer")
    answer = factories.api_for(user).get(f"/api/v1/recipes/?{query}")
    assert answer.status_code == 400
    assert answer.json()["place"] == query.split("=")[0]
    assert factories.client_for(user).get(f"/catalog/?{query}").status_code == 400


def test_an_empty_catalog_says_what_to_do(units):
    client = factories.client_for(factories.make_member(units["search"], "viewer"))
    assert "No recipe is published yet" in client.get("/catalog/").content.decode()
    assert "No recipe fits" in client.get("/catalog/?q=x").content.decode()
