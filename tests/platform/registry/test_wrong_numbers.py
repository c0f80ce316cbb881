"""What is no number, where one is expected, is a wrong request: never a fault of the site."""

from __future__ import annotations

import pytest

from fuseworks.accounts.models import Team
from fuseworks.recipes.models import RecipeVersion
from fuseworks.registry.models import ModelVersion
from optimizer.recipe.example import EXAMPLE
from tests.platform import factories

pytestmark = pytest.mark.django_db
WRONG = pytest.mark.parametrize("number", ["²", "٣", "-1", "1" * 5000], ids=["superscript", "arabic", "minus", "long"])


@WRONG
def test_an_offset(team: Team, number: str) -> None:
    api = factories.api_for(factories.make_token(factories.make_member(team), team))
    body = {"team": team.slug, "model_name": "DIN", "filename": "din.py", "length_bytes": 5}
    address = api.post("/api/v1/uploads/", body).json()["address"]
    answer = api.generic(
        "PATCH", address, b"x", content_type="application/offset+octet-stream", headers={"Upload-Offset": number}
    )
    assert (answer.status_code, answer.json()["id"], answer.json()["place"]) == (
        400,
        "core:usage:invalid",
        "Upload-Offset",
    )


@WRONG
def test_the_length_of_a_body(team: Team, number: str) -> None:
    api = factories.api_for(factories.make_token(factories.make_member(team), team))
    answer = api.put(f"/api/v1/uploads/{team.slug}/DIN/din.py", CONTENT_LENGTH=number)
    assert (answer.status_code, answer.json()["id"]) == (411, "registry:usage:length-required")


@WRONG
def test_a_revision_in_an_address(team: Team, version: ModelVersion, number: str) -> None:
    factories.make_workload(version)
    client = factories.client_for(factories.make_member(team))
    assert client.get(f"/versions/{version.pk}/", {"workload": number}).status_code == 404


@WRONG
def test_the_revisions_in_a_form(team: Team, version: ModelVersion, number: str) -> None:
    factories.make_workload(version)
    client = factories.client_for(factories.make_member(team))
    address = f"/versions/{version.pk}/workload/"
    assert client.post(address, {"shown": number, "current": "1"}).status_code == 409
    text = "inputs: [{name: y, dtype: float32, shape: [2]}]"
    assert client.post(address, {"document": text, "current": number}).status_code == 302


@WRONG
def test_a_budget(team: Team, version: ModelVersion, number: str) -> None:
    client = factories.client_for(factories.make_member(team))
    client.post("/recipes/new/", {"team": team.slug, "document": EXAMPLE})
    recipe_version = RecipeVersion.objects.get()
    answer = client.post(
        f"/recipe-versions/{recipe_version.pk}/apply/", {"version": str(version.pk), "budget_s": number}
    )
    assert answer.status_code == 400
    assert "choose one of the budgets" in answer.content.decode()
