"""What pipelines and people read of gates."""

from __future__ import annotations

import pytest

from fuseworks.accounts.models import Team
from fuseworks.gates.models import GateCheck
from fuseworks.runs.models import Run
from tests.platform.factories import api_for, client_for, make_member, make_run, make_team, make_token
from tests.platform.results.support import two_versions

pytestmark = pytest.mark.django_db


@pytest.fixture
def check(team: Team) -> GateCheck:
    before, after = two_versions(team)
    run = make_run(after, purpose="compare", against=before, status="succeeded")
    return GateCheck.objects.create(
        run=run,
        max_latency_ratio=1.05,
        outcome="fail",
        latency_ratio=1.2,
        latency_ratio_low=1.1,
        latency_ratio_high=1.3,
    )


def test_the_check_of_a_run_has_the_exit_code(check, team):
    found = api_for(make_token(make_member(team), scopes=("read",))).get(f"/api/v1/gates/{check.run_id}/").json()
    assert (found["outcome"], found["exit_code"], found["max_latency_ratio"]) == ("fail", 1, 1.05)
    assert (found["latency_ratio"], found["latency_ratio_low"], found["latency_ratio_high"]) == (1.2, 1.1, 1.3)
    assert (found["model"], found["version_number"], found["against_number"]) == ("DIN", 2, 1)
    assert found["run"] == str(check.run_id) and found["team"] == "ads-ranking"
    assert (found["compared_as"], found["recipe_run"], found["reason"]) == ("uploaded", None, "")


def test_a_check_without_figures_says_why(check, team):
    problem = {"id": "compare:user:after-not-packaged", "message": "model.py cannot be packaged", "remedy": "Optimize."}
    Run.objects.filter(pk=check.run_id).update(status="failed", problem=problem, recipe_document={"kind": "Recipe"})
    GateCheck.objects.filter(pk=check.pk).update(outcome="no_result", latency_ratio=None)
    found = api_for(make_member(team)).get(f"/api/v1/gates/{check.run_id}/").json()
    assert (found["exit_code"], found["reason"]) == (4, "model.py cannot be packaged")
    assert found["compared_as"] == "packaged"


def test_there_is_no_exit_code_before_the_end(check, team):
    Run.objects.filter(pk=check.run_id).update(status="running")
    GateCheck.objects.filter(pk=check.pk).update(outcome="pending", latency_ratio=None)
    found = api_for(make_member(team)).get(f"/api/v1/gates/{check.run_id}/").json()
    assert (found["outcome"], found["exit_code"], found["latency_ratio"]) == ("pending", None, None)


def test_a_run_without_a_gate_says_how_to_have_one(check, team):
    run = make_run(check.run.version)
    answer = api_for(make_member(team)).get(f"/api/v1/gates/{run.pk}/")
    assert (answer.status_code, answer.json()["id"]) == (404, "gates:usage:no-check")


def test_a_stranger_gets_404_and_an_empty_list(check):
    api = api_for(make_member(make_team()))
    assert api.get(f"/api/v1/gates/{check.run_id}/").json()["id"] == "core:usage:not-found"
    assert api.get("/api/v1/gates/").json()["results"] == []


def test_the_list_is_filtered_by_model_and_outcome(check, team):
    api = api_for(make_member(team))
    for query, count in (
        ({}, 1),
        ({"model": check.run.version.model_id}, 1),
        ({"model": check.pk}, 0),
        ({"outcome": "fail"}, 1),
        ({"outcome": "pass"}, 0),
        ({"team": "ads-ranking"}, 1),
        ({"team": "elsewhere"}, 0),
    ):
        assert api.get("/api/v1/gates/", query).json()["count"] == count, query
    assert api.get("/api/v1/gates/", {"outcome": "maybe"}).status_code == 400


def test_the_page_lists_a_models_history(check, team):
    client = client_for(make_member(team, "viewer"))
    body = client.get("/gates/", {"model": check.run.version.model_id}).content.decode()
    assert "Gates of DIN" in body
    assert "1.200" in body and "[1.100, 1.300]" in body and "1.05" in body
    assert 'data-word="fail"' in body and "as uploaded" in body
    Run.objects.filter(pk=check.run_id).update(recipe_document={"kind": "Recipe"})
    assert "<td>as packaged</td>" in client.get("/gates/").content.decode()


def test_the_pages_of_a_long_history_are_linked_with_and_without_a_model(check, team, monkeypatch):
    monkeypatch.setattr("fuseworks.gates.pages.gates.PAGE_SIZE", 1)
    GateCheck.objects.create(run=make_run(check.run.version, purpose="compare"), max_latency_ratio=1.05)
    client, model = client_for(make_member(team)), check.run.version.model_id
    for query, link in (({}, "?page=2"), ({"model": model}, f"?model={model}&amp;page=2")):
        body = client.get("/gates/", query).content.decode()
        assert f'href="{link}"' in body
        assert client.get("/gates/" + link.replace("&amp;", "&")).status_code == 200


def test_the_history_is_reached_from_the_runs_and_from_the_model(check, team):
    client, model = client_for(make_member(team)), check.run.version.model_id
    assert 'href="/gates/"' in client.get("/runs/").content.decode()
    assert f'href="/gates/?model={model}"' in client.get(f"/models/{model}/").content.decode()


def test_the_page_of_another_teams_model_is_not_there(check):
    client = client_for(make_member(make_team()))
    assert client.get("/gates/", {"model": check.run.version.model_id}).status_code == 404
    assert "No gate has been asked yet" in client.get("/gates/").content.decode()
