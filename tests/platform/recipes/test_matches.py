"""Which recipes of the catalog fit a version: told from what the passes did to it, from its inspection on."""

from __future__ import annotations

import pytest

from fuseworks.accounts.permissions import Actor
from fuseworks.recipes import services
from fuseworks.recipes.selectors import matches
from tests.platform import factories
from tests.platform.recipes.documents import document

pytestmark = pytest.mark.django_db
SITE = {"node": "cat", "reason": "concat"}


def rewrite(name: str, *, applied: bool) -> dict[str, object]:
    sites = {"applied": [SITE]} if applied else {"refused": [SITE]}
    return {"pass": name, **sites, "nodes_before": 9, "nodes_after": 8, "seconds": 0.1}


@pytest.fixture
def version():
    team = factories.make_team("ads-ranking")
    owner = Actor(factories.make_member(team, "owner"))
    saved = services.recipe_save(actor=owner, team=team, document=document())
    services.version_publish(actor=owner, recipe_version=saved, visibility="company")
    return factories.make_version(factories.make_model(factories.make_team("search-ranking")))


def tried(version, *, purpose: str, applied: bool) -> None:
    run = factories.make_run(version, purpose=purpose, status="succeeded")
    rewrites = [rewrite("split_target_attention", applied=applied)]
    workload = factories.workload_document()
    factories.make_result(run, factories.result_document(purpose=purpose, rewrites=rewrites, workload=workload))


def found(version) -> list[tuple[str, bool]]:
    member = Actor(factories.make_member(version.model.team, "viewer"))
    return [
        (match.recipe_version.recipe.name, match.reason is None) for match in matches(actor=member, version=version)
    ]


def test_nothing_is_said_before_any_run_tried_the_passes(version):
    assert found(version) == []


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("purpose", ["inspect", "optimize"])
def test_the_passes_of_an_inspection_tell_it_like_those_of_an_optimize_run(version, purpose: str, applied: bool):
    tried(version, purpose=purpose, applied=applied)
    assert found(version) == [("din-split", applied)]


def test_the_newest_run_counts(version):
    tried(version, purpose="inspect", applied=True)
    tried(version, purpose="optimize", applied=False)
    assert found(version) == [("din-split", False)]


def test_the_version_page_lists_those_that_fit_once_it_is_inspected(version):
    client = factories.client_for(factories.make_member(version.model.team, "member"))
    assert "Split target attention" not in client.get(f"/versions/{version.pk}/").content.decode()
    tried(version, purpose="inspect", applied=True)
    assert "Split target attention" in client.get(f"/versions/{version.pk}/").content.decode()
