"""Models over services and API: made, found, described, with their versions and workloads."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from fuseworks.accounts.models import Team
from fuseworks.accounts.permissions import Actor
from fuseworks.core.errors import PlatformError
from fuseworks.core.storage import open_stored
from fuseworks.registry.models import Model
from fuseworks.registry.selectors import comparable_versions, models_list
from fuseworks.registry.services import model_create, model_update
from tests.platform import factories

pytestmark = pytest.mark.django_db
MODELS = "/api/v1/models/"


@pytest.fixture
def api(team: Team) -> APIClient:
    return factories.api_for(factories.make_token(factories.make_member(team, "maintainer"), team))


def test_a_name_in_any_script_makes_a_model(team: Team) -> None:
    actor = Actor(factories.make_member(team))
    assert model_create(actor=actor, team=team, name=" 点击率 v2 ").name == "点击率 v2"
    with pytest.raises(PlatformError) as caught:
        model_create(actor=actor, team=team, name="点击率 V2")
    assert (caught.value.id, caught.value.status) == ("registry:usage:model-exists", 409)
    assert caught.value.extra == {"model": str(Model.objects.get().pk)}


def test_renaming_keeps_names_apart(team: Team) -> None:
    actor = Actor(factories.make_member(team))
    model, other = (model_create(actor=actor, team=team, name=name) for name in ("DIN", "DIEN"))
    assert model_update(actor=actor, model=model, name="din").name == "din"  # its own slug
    with pytest.raises(PlatformError) as caught:
        model_update(actor=actor, model=model, name="Dien")
    assert caught.value.id == "registry:usage:model-exists"
    assert caught.value.extra == {"model": str(other.pk)}
    model.refresh_from_db()
    assert (model.name, model.slug) == ("din", "din")


def test_the_list_shows_the_newest_version_and_the_last_verdict(team: Team, api: APIClient) -> None:
    model = factories.make_model(team, "DIN")
    old, new = factories.make_version(model), factories.make_version(model)
    factories.make_model(team, "Empty")
    slower = factories.result_document(verdict="slower", speedup=0.5)
    factories.make_result(factories.make_run(old, status="succeeded"), slower)
    factories.make_result(factories.make_run(new, status="succeeded"))
    # neither inspections nor comparisons judge a model
    factories.make_result(factories.make_run(new, status="succeeded", purpose="compare"), slower)
    rows = api.get(MODELS).json()["results"]
    assert [row["name"] for row in rows] == ["DIN", "Empty"]
    assert (rows[0]["newest_version"], rows[0]["newest_number"]) == (str(new.pk), 2)
    assert (rows[0]["verdict"], rows[0]["speedup"]) == ("faster", 2.0)
    assert (rows[1]["newest_version"], rows[1]["verdict"]) == (None, None)
    assert rows[0]["page"] == f"http://testserver/models/{model.pk}/"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=attention", ["DIN"]),
        ("q=interest+attention", ["DIN"]),
        ("q=attention+nothing", []),
        ("q=search+rank", ["DLRM"]),
        ("team=ads-ranking", ["DIN"]),
        ("name=din", ["DIN"]),
        ("team=nobody", []),
        ("q=%25", []),
    ],
)
def test_models_are_found_by_words_team_and_name(team: Team, query: str, found: list[str]) -> None:
    user = factories.make_member(team)
    other = factories.make_team("search-rank", name="Search rank")
    factories.make_member(other, user=user)
    din = factories.make_model(team, "DIN")
    din.description = "deep interest network: target attention"
    din.save()
    factories.make_model(other, "DLRM")
    rows = factories.api_for(user).get(f"{MODELS}?{query}").json()["results"]
    assert [row["name"] for row in rows] == found


def test_a_zero_character_in_a_search_is_refused_not_a_crash(api: APIClient) -> None:
    assert api.get(f"{MODELS}?q=%00").status_code == 400


def test_a_model_is_made_and_described_over_the_api(team: Team, api: APIClient) -> None:
    made = api.post(MODELS, {"team": "ads-ranking", "name": "DIN"})
    assert made.status_code == 201
    address = f"{MODELS}{made.json()['id']}/"
    assert api.patch(address, {"description": "attention"}).json()["description"] == "attention"
    assert api.get(address).json()["name"] == "DIN"
    assert api.patch(address, {"description": ""}).json()["description"] == ""
    assert made.json()["family"] == "other"
    assert api.patch(address, {"family": "ranking"}).json()["family"] == "ranking"
    assert api.patch(address, {"family": "guess"}).status_code == 400
    again = api.post(MODELS, {"team": "ads-ranking", "name": "din"})
    assert (again.status_code, again.json()["model"]) == (409, made.json()["id"])
    assert api.post(MODELS, {"name": "x"}).status_code == 400
    assert api.post(MODELS, {"team": "ads-ranking", "name": "/"}).status_code == 422


def test_versions_are_listed_the_newest_first_and_filtered(team: Team, api: APIClient) -> None:
    model = factories.make_model(team)
    first = factories.make_version(model, sha256="ab" * 32)
    second = factories.make_version(model, sha256="cd" * 32, data=b"x")
    api.delete(f"/api/v1/versions/{first.pk}/")
    address = f"{MODELS}{model.pk}/versions/"
    assert [row["id"] for row in api.get(address).json()["results"]] == [str(second.pk), str(first.pk)]
    assert [row["id"] for row in api.get(f"{address}?sha256={'AB' * 32}").json()["results"]] == [str(first.pk)]
    assert [row["id"] for row in api.get(f"{address}?deleted=true").json()["results"]] == [str(first.pk)]
    assert [row["id"] for row in api.get(f"{address}?deleted=false").json()["results"]] == [str(second.pk)]


def test_a_version_tells_its_inspection_and_its_workload(team: Team, api: APIClient) -> None:
    version = factories.make_version(factories.make_model(team), data=b"bytes")
    shown = api.get(f"/api/v1/versions/{version.pk}/").json()
    assert (shown["inspection"], shown["workload"], shown["inspect_run"]) == (None, None, None)
    assert shown["file"] == f"http://testserver/api/v1/versions/{version.pk}/file/"
    factories.make_workload(version)
    newest = factories.make_workload(version, source="edited")
    run = factories.make_run(version, purpose="inspect")
    version.inspection = {"format": "py"}
    version.save()
    shown = api.get(f"/api/v1/versions/{version.pk}/").json()
    assert shown["inspection"] == {"format": "py"}
    assert (shown["workload"]["id"], shown["workload"]["number"]) == (str(newest.pk), 2)
    assert shown["inspect_run"] == str(run.pk)


def test_the_file_comes_back_byte_by_byte_until_it_is_deleted(team: Team, api: APIClient) -> None:
    version = factories.make_version(factories.make_model(team), data=b"\x00\xffbytes", filename="a.onnx")
    address = f"/api/v1/versions/{version.pk}/file/"
    answer: Any = api.get(address)
    assert b"".join(answer.streaming_content) == b"\x00\xffbytes"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="a.onnx"'
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert api.delete(f"/api/v1/versions/{version.pk}/").status_code == 204
    gone = api.get(address)
    assert (gone.status_code, gone.json()["id"]) == (410, "registry:usage:deleted")
    shown = api.get(f"/api/v1/versions/{version.pk}/").json()
    assert (shown["file"], shown["deleted_at"] is not None) == (None, True)


def test_a_lost_file_is_404_and_no_crash(team: Team, api: APIClient) -> None:
    version = factories.make_version(factories.make_model(team))
    with pytest.raises(PlatformError):
        open_stored(version.storage_key)
    assert api.get(f"/api/v1/versions/{version.pk}/file/").status_code == 404


def test_workloads_over_the_api(team: Team, api: APIClient) -> None:
    version = factories.make_version(factories.make_model(team))
    address = f"/api/v1/versions/{version.pk}/workloads/"
    document = {"inputs": [{"name": "x", "dtype": "float32", "shape": [4]}]}
    saved = api.post(address, {"document": document, "based_on": 0})
    assert (saved.status_code, saved.json()["number"], saved.json()["source"]) == (201, 1, "edited")
    assert api.post(address, {"document": document}).status_code == 200
    second = api.post(address, {"document": {**document, "name": "peak"}})
    assert (second.status_code, second.json()["number"]) == (201, 2)
    assert [row["number"] for row in api.get(address).json()["results"]] == [2, 1]
    stale = api.post(address, {"document": document, "based_on": 1})
    assert (stale.status_code, stale.json()["id"]) == (409, "registry:usage:workload-changed")
    wrong = api.post(address, {"document": {**document, "dims": {"n": {"serve": [9], "max": 4}}}})
    assert wrong.status_code == 422
    assert wrong.json()["fields"] == {"dims.n": ["serve sizes [9] must lie within [1, 4]"]}
    assert api.post(address, {}).status_code == 400


def test_versions_of_the_same_model_come_first_when_one_is_chosen_to_compare(team: Team) -> None:
    model, other = factories.make_model(team, "Z"), factories.make_model(team, "A")
    first, second = factories.make_version(model), factories.make_version(model)
    elsewhere = factories.make_version(other)
    factories.make_version(model, deleted_at=first.created_at, storage_key="")
    factories.make_version(factories.make_model(factories.make_team()))
    assert list(comparable_versions(version=second)) == [first, elsewhere]


def test_the_list_asks_the_database_once_for_any_number_of_models(team: Team, django_assert_num_queries: Any) -> None:
    for _ in range(5):
        factories.make_version(factories.make_model(team))
    actor = Actor(factories.make_member(team))
    with django_assert_num_queries(1):
        assert len([(m.team.business_unit.name, m.newest_number) for m in models_list(actor=actor)]) == 5
