"""A recipe whose steps no worker knows stays a draft."""

from __future__ import annotations

from typing import Any

import pytest

from fuseworks.accounts.permissions import Actor
from fuseworks.core.errors import PlatformError
from fuseworks.recipes import services
from fuseworks.recipes.models import RecipeVersion
from tests.platform.factories import api_for, client_for, make_member, make_team
from tests.platform.recipes.documents import document
from tests.platform.runs.steps import worker_row

pytestmark = pytest.mark.django_db
PASSES = ["split_target_attention", "fold_batch_norm"]


@pytest.fixture
def owner() -> Actor:
    return Actor(make_member(make_team("ads-ranking"), "owner"))


def draft(owner: Actor, backend: str = "aot_inductor", step: str = "split_target_attention") -> RecipeVersion:
    given: dict[str, Any] = document()
    given["steps"] = [{"pass": step}, {"backend": backend}]
    given["applies_to"]["graph"] = {"all": [{"pass": step}]}
    team = owner.user.memberships.get().team
    return services.recipe_save(actor=owner, team=team, document=given)


def known_here() -> None:
    backends = [{"name": "aot_inductor"}, {"name": "openvino"}]
    worker_row("host cpu", manifest={"passes": [{"name": name} for name in PASSES], "backends": backends})


@pytest.mark.parametrize(
    ("given", "id_", "near"),
    [
        ({"step": "split_target_atention"}, "recipes:usage:unknown-pass", "split_target_attention"),
        ({"backend": "openvin"}, "recipes:usage:unknown-backend", "openvino"),
    ],
)
def test_it_is_not_published_and_the_nearest_names_are_told(
    owner: Actor, given: dict[str, str], id_: str, near: str
) -> None:
    known_here()
    version = draft(owner, **given)
    with pytest.raises(PlatformError) as caught:
        services.version_publish(actor=owner, recipe_version=version, visibility="team")
    (name,) = given.values()
    assert (caught.value.id, caught.value.status) == (id_, 409)
    assert caught.value.message.endswith(f"called {name}.")
    assert caught.value.remedy.startswith(f"There are: {near}. ")
    version.refresh_from_db()
    assert version.state == "draft"
    answer = api_for(owner.user).post(f"/api/v1/recipe-versions/{version.pk}/publish/", {"visibility": "team"})
    assert (answer.status_code, answer.json()["id"]) == (409, id_)


def test_what_workers_know_is_published(owner: Actor) -> None:
    known_here()
    version = services.version_publish(actor=owner, recipe_version=draft(owner), visibility="team")
    assert version.state == "published"


def test_where_no_worker_told_anything_it_is_published(owner: Actor) -> None:
    worker_row("host cpu", manifest={})
    version = draft(owner, step="no_such_pass")
    assert services.version_publish(actor=owner, recipe_version=version, visibility="team").state == "published"


def test_the_recipes_page_says_so_while_it_is_a_draft(owner: Actor) -> None:
    version = draft(owner, step="no_such_pass")
    browser, said = client_for(owner.user), "No worker knows a pass called no_such_pass."
    assert said not in browser.get(f"/recipes/{version.recipe_id}/").content.decode()
    known_here()
    assert said in browser.get(f"/recipes/{version.recipe_id}/").content.decode()
