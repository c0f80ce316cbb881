"""A recipe's form that is refused: what its sender can mend stays in the form, what he may not do is an error page;
each with the error's own status."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from django.test import Client
from django.utils import timezone

from fuseworks.recipes.models import RecipeVersion
from fuseworks.registry.models import ModelVersion
from fuseworks.runs.models import Run
from tests.platform import factories
from tests.platform.recipes.documents import document

pytestmark = pytest.mark.django_db
TEXT = yaml.safe_dump(document())
FORM = "<textarea"


def signed_in(team: Any, role: str) -> Client:
    return factories.client_for(factories.make_member(team, role))


@pytest.fixture
def saved(team: Any) -> RecipeVersion:
    signed_in(team, "member").post("/recipes/new/", {"team": team.slug, "document": TEXT})
    return RecipeVersion.objects.get()


def test_a_new_recipe(team: Any) -> None:
    def posted(role: str, slug: str, text: str = TEXT) -> tuple[int, bool]:
        answer = signed_in(team, role).post("/recipes/new/", {"team": slug, "document": text})
        return answer.status_code, FORM in answer.content.decode()

    assert posted("viewer", team.slug) == (403, False)
    assert posted("member", "no-such-team") == (404, False)
    assert posted("member", team.slug, "kind: Nonsense") == (422, True)
    assert not RecipeVersion.objects.exists()
    assert posted("member", team.slug)[0] == 302
    assert posted("member", team.slug) == (409, True)  # it is there already
    assert posted("member", team.slug, yaml.safe_dump(document(summary="another"))) == (409, True)  # its number is
    assert RecipeVersion.objects.count() == 1


def test_an_edited_recipe(team: Any, saved: RecipeVersion) -> None:
    def posted(role: str, text: str) -> tuple[int, bool]:
        answer = signed_in(team, role).post(f"/recipe-versions/{saved.pk}/edit/", {"document": text})
        return answer.status_code, FORM in answer.content.decode()

    assert posted("viewer", TEXT) == (403, False)
    assert posted("member", "kind: Nonsense") == (422, True)
    RecipeVersion.objects.update(state="published")
    assert posted("member", TEXT) == (409, True)  # published since the form was opened


def test_an_applied_recipe(team: Any, saved: RecipeVersion, version: ModelVersion) -> None:
    factories.make_workload(version)

    def posted(role: str, **fields: str) -> tuple[int, bool]:
        given = {"version": str(version.pk), "budget_s": "60", **fields}
        answer = signed_in(team, role).post(f"/recipe-versions/{saved.pk}/apply/", given)
        return answer.status_code, "recipes/apply.html" in {template.name for template in answer.templates}

    elsewhere = factories.make_version(factories.make_model(factories.make_team()))
    assert posted("viewer") == (403, False)
    assert posted("member", version=str(elsewhere.pk)) == (404, False)
    assert posted("member", version="none") == (400, True)
    assert posted("member", budget_s="7") == (400, True)
    assert posted("member", target="cuda:sm_1") == (400, True)
    ModelVersion.objects.filter(pk=version.pk).update(deleted_at=timezone.now())
    assert posted("member") == (409, True)
    assert not Run.objects.filter(purpose="replay").exists()
