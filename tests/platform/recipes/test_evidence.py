"""What a replay shows becomes evidence, good or bad; who may not see the run sees its figures and family only."""

from __future__ import annotations

import pytest

from fuseworks.accounts.permissions import Actor
from fuseworks.recipes import selectors, services
from fuseworks.recipes.models import Evidence
from optimizer.result import Problem, Result, RunStatus, Verdict
from tests.platform import factories
from tests.platform.recipes.documents import document

pytestmark = pytest.mark.django_db


@pytest.fixture
def published():
    team = factories.make_team("ads-ranking")
    owner = Actor(factories.make_member(team, "owner"))
    version = services.recipe_save(actor=owner, team=team, document=document())
    return services.version_publish(actor=owner, recipe_version=version, visibility="company")


@pytest.fixture
def replay(published):
    team = factories.make_team("search-ranking")
    model = factories.make_model(team, "Query ranker")
    model.family = "search"
    model.save()
    return factories.make_run(
        factories.make_version(model), purpose="replay", recipe_version=published, status="succeeded"
    )


def result(**fields) -> Result:
    return Result.model_validate(factories.result_document(**fields))


def failed_with(id_: str, side: str) -> Result:
    problem = Problem(id=id_, side=side, message="The recipe does not apply: no match.", remedy="Optimize.")
    status = RunStatus.FAILED if side == "user" else RunStatus.ERRORED
    return Result(purpose="replay", status=status, problem=problem)


@pytest.mark.parametrize("verdict", [Verdict.FASTER, Verdict.SLOWER, Verdict.SAME, Verdict.CANNOT_TELL])
def test_each_verdict_is_kept(replay, published, verdict: Verdict):
    services.evidence_record(run=replay, result=result(verdict=verdict))
    row = Evidence.objects.get()
    assert (row.recipe_version, row.outcome, row.speedup_low) == (published, verdict.value, 1.9)
    assert row.conditions == {"device": "a CPU", "cores": 2}


@pytest.mark.parametrize(
    ("id_", "outcome"),
    [
        ("replay:user:does-not-apply", "refused"),
        ("replay:user:precision", "refused"),
        ("replay:user:not-accepted", "failed"),
        ("optimizing:user:unknown-pass", "failed"),
        ("optimizing:user:bad-options", "failed"),
    ],
)
def test_a_refusal_and_a_failure_are_evidence_too(replay, id_: str, outcome: str):
    services.evidence_record(run=replay, result=failed_with(id_, "user"))
    row = Evidence.objects.get()
    assert (row.outcome, row.speedup) == (outcome, None)


def test_what_is_faster_and_not_accepted_is_no_gain(replay, published):
    services.evidence_record(run=replay, result=result(accepted=False, not_accepted_because="its backend is faster"))
    row = Evidence.objects.get()
    assert (row.outcome, row.reason) == ("not_accepted", "its backend is faster")
    shown = selectors.with_best_gain(type(published).objects.filter(pk=published.pk)).get()
    assert (shown.best_gain, shown.evidence_faster, shown.evidence_all) == (None, 0, 1)


def test_a_model_that_fails_by_itself_says_nothing_of_the_recipe(replay):
    services.evidence_record(run=replay, result=failed_with("capture:user:data-dependent-branch", "user"))
    assert Evidence.objects.count() == 0


def test_what_was_our_fault_says_nothing_of_the_recipe(replay):
    services.evidence_record(run=replay, result=failed_with("child:ours:unexpected", "ours"))
    assert Evidence.objects.count() == 0


def test_a_run_told_twice_is_one_row(replay):
    services.evidence_record(run=replay, result=result())
    services.evidence_record(run=replay, result=result(verdict=Verdict.SAME))
    assert Evidence.objects.get().outcome == "same"


def test_an_optimize_run_is_no_evidence_by_itself():
    run = factories.make_run(factories.make_version(factories.make_model(factories.make_team())), status="succeeded")
    assert services.evidence_record(run=run, result=result()) is None


def test_strangers_see_figures_and_family_but_no_name(replay, published):
    services.evidence_record(run=replay, result=result())
    stranger = factories.make_member(factories.make_team("ads-retrieval"), "viewer")
    (row,) = selectors.as_seen_by(Actor(stranger), selectors.evidence_of(recipe_version=published))
    assert (row.run, row.model_name) == (None, "")
    assert (row.evidence.family, row.evidence.speedup) == ("search", 2.0)
    for body in (
        factories.api_for(stranger).get(f"/api/v1/recipe-versions/{published.pk}/evidence/").content.decode(),
        factories.client_for(stranger).get(f"/recipes/{published.recipe_id}/").content.decode(),
    ):
        assert "2.0" in body
        assert "Query ranker" not in body and "search-ranking" not in body and str(replay.pk) not in body


def test_those_who_may_see_the_run_see_its_name(replay, published):
    services.evidence_record(run=replay, result=result())
    member = factories.make_member(replay.team, "viewer")
    body = factories.api_for(member).get(f"/api/v1/recipe-versions/{published.pk}/evidence/").json()
    assert body["results"][0]["model"] == "Query ranker v1"
    assert body["results"][0]["run"] == str(replay.pk)


def test_a_long_record_is_shown_in_pages_that_stay_on_the_version(replay, published, monkeypatch):
    monkeypatch.setattr("fuseworks.recipes.pages.recipe.EVIDENCE_A_PAGE", 1)
    services.evidence_record(run=replay, result=result())
    again = factories.make_run(replay.version, purpose="replay", recipe_version=published, status="succeeded")
    services.evidence_record(run=again, result=failed_with("replay:user:does-not-apply", "user"))
    client = factories.client_for(factories.make_member(replay.team, "viewer"))
    address = f"/recipes/{published.recipe_id}/?version={published.pk}"
    first, second = (client.get(f"{address}&page={number}").content.decode() for number in (1, 2))
    assert str(again.pk) in first and str(replay.pk) not in first
    assert f"?version={published.pk}&amp;page=2" in first
    assert str(replay.pk) in second and str(again.pk) not in second


def test_evidence_is_asked_for_by_outcome(replay, published):
    services.evidence_record(run=replay, result=result())
    api = factories.api_for(factories.make_member(replay.team, "viewer"))
    found = {
        outcome: api.get(f"/api/v1/recipe-versions/{published.pk}/evidence/?outcome={outcome}").json()["count"]
        for outcome in ("faster", "slower")
    }
    assert found == {"faster": 1, "slower": 0}
