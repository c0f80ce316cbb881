"""`/comparisons/`: runs beside each other, refused with what differs, and measured side by side on request."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from fuseworks.accounts.models import Team
from fuseworks.results.comparing import beside, what_differs
from fuseworks.runs.models import Run
from optimizer.result import Result
from tests.platform.factories import api_for, client_for, make_member, make_model, make_run, make_team, make_version
from tests.platform.results.support import document, finished_run, result
from tests.platform.results.test_comparison_page import text

pytestmark = pytest.mark.django_db

PAGE, API = "/comparisons/", "/api/v1/comparisons/"


def changed(name: str = "din", **fields: Any) -> dict[str, Any]:
    return {**document(name), **fields}


def other_conditions(found: dict[str, Any], **fixed: Any) -> dict[str, Any]:
    found["conditions"]["fixed"].update(fixed)
    found["conditions"]["fingerprint"] = "f" * 64
    return found


@pytest.fixture
def pair(team: Team) -> tuple[Run, Run]:
    """Two versions under equal conditions: three times and four times as fast."""
    model = make_model(team, name="DIN")
    first = finished_run(changed(speedup=3.0), make_version(model))
    second = finished_run(changed(speedup=4.0), make_version(model, b"another"))
    return first, second


def asked(*runs: Run) -> str:
    return ",".join(str(run.pk) for run in runs)


# ---- what must be equal --------------------------------------------------------------------------------------------


def test_equal_documents_are_comparable():
    assert what_differs([result("din"), result("din")]) == []


def test_what_was_only_observed_may_differ():
    other = document("din")
    other["conditions"]["observed"]["load_average_1min"] = 9.0
    assert what_differs([result("din"), Result.model_validate(other)]) == []


def test_unequal_conditions_are_named_by_their_keys():
    found = what_differs([result("din"), Result.model_validate(other_conditions(document("din"), cores=64, cpu="B"))])
    assert [(one.key, one.values) for one in found] == [
        ("conditions.cores", ["2", "64"]),
        ("conditions.cpu", ["a CPU", "B"]),
    ]


def test_unequal_fingerprints_of_equal_facts_are_refused_all_the_same():
    other = document("din")
    other["conditions"]["fingerprint"] = "0" * 64
    (found,) = what_differs([result("din"), Result.model_validate(other)])
    assert found.key == "conditions.fingerprint" and found.values[1] == "0" * 64


def test_results_without_conditions_are_not_comparable():
    bare = Result.model_validate(changed(conditions=None))
    assert [one.key for one in what_differs([bare, bare])] == ["conditions.fingerprint"]


def test_another_workload_is_named_down_to_the_input():
    other = document("din")
    other["workload"]["dims"]["batch"]["serve"] = [256]
    (found,) = what_differs([result("din"), Result.model_validate(other)])
    assert (found.key, found.values) == ("workload.dims.batch.serve", ["128", "256"])


def test_speeds_are_compared_within_one_precision_only():
    other = document("din")
    winner = next(e for e in other["candidates"] if e["candidate"]["name"] == other["winner"])
    winner["performance"]["inference_precision"] = "bfloat16"
    (found,) = what_differs([result("din"), Result.model_validate(other)])
    assert (found.key, found.values) == ("precision", ["float32", "bfloat16"])


def test_a_run_that_judged_nothing_is_not_comparable():
    nothing = changed(speedup=None, speedup_ci=None, verdict=None, conditions=None)
    (found,) = what_differs([result("din"), Result.model_validate(nothing)])
    assert (found.key, found.values) == ("result", ["judged", "nothing judged"])
    assert [one.key for one in what_differs([result("compare"), result("compare")])] == ["result"]


def test_the_ratio_of_speedups_is_that_of_the_second_over_the_first(pair):
    (derived,) = beside(list(pair)).derived
    assert derived.ratio == pytest.approx(4 / 3)
    assert (derived.base, derived.run) == pair


# ---- the page ------------------------------------------------------------------------------------------------------


def test_comparable_runs_stand_beside_each_other_and_what_is_derived_is_called_so(pair, team):
    page = text(client_for(make_member(team)), f"{PAGE}?runs={asked(*pair)}")
    assert "Runs beside each other" in page
    assert "3.00×" in page and "4.00×" in page
    assert "Derived, not measured" in page
    assert "The speedup of DIN v2 is 1.33× that of DIN v1." in page
    assert "this says which gained more, not which is faster" in page
    assert "These runs were not measured together." in page
    assert "Measure them side by side" in page


def test_what_is_not_faster_is_not_called_a_winner(pair, team):
    client = client_for(make_member(team))
    assert "Baseline Winner 99th percentile" in text(client, f"{PAGE}?runs={asked(*pair)}")
    slower = finished_run(changed(speedup=0.5, verdict="slower"), pair[0].version)
    page = text(client, f"{PAGE}?runs={asked(pair[0], slower)}")
    assert "Baseline Best candidate 99th percentile" in page and "Winner" not in page


@pytest.mark.parametrize("first", [True, False])
def test_no_ratio_is_derived_of_a_run_that_cannot_tell(pair, team, first):
    unproven = finished_run(changed(speedup=0.47, verdict="cannot_tell"), pair[0].version)
    both = (unproven, pair[0]) if first else (pair[0], unproven)
    assert beside(list(both)).derived == []
    page = text(client_for(make_member(team)), f"{PAGE}?runs={asked(*both)}")
    assert "No ratio is derived of a run that cannot tell" in page and "Derived, not measured" not in page


def test_runs_under_unequal_conditions_are_refused_with_the_difference_and_without_figures(pair, team):
    odd = finished_run(other_conditions(changed(speedup=5.0), cores=64), pair[0].version)
    client = client_for(make_member(team))
    answer = client.get(f"{PAGE}?runs={asked(pair[0], odd)}")
    assert answer.status_code == 200
    page = text(client, f"{PAGE}?runs={asked(pair[0], odd)}")
    assert "These runs may not be compared" in page
    assert "conditions.cores 2 64" in page
    assert "5.00×" not in page and "Derived" not in page


def test_three_runs_can_stand_beside_each_other(pair, team):
    third = finished_run(changed(speedup=6.0), pair[0].version)
    page = text(client_for(make_member(team)), f"{PAGE}?runs={asked(*pair, third)}")
    assert "is 2.00× that of DIN v1" in page  # 6 / 3
    assert "Measure them side by side" not in page


def test_the_picker_offers_judged_runs_of_visible_models(pair, team):
    make_run(pair[0].version, status="running")
    finished_run({"purpose": "inspect", "status": "succeeded"}, pair[0].version)
    finished_run(document("din"))  # of another team
    client = client_for(make_member(team))
    body = client.get(PAGE).content.decode()
    assert [f'value="{run.pk}"' in body for run in pair] == [True, True]
    assert body.count('name="runs"') == 2


def test_the_picker_starts_from_a_run_and_marks_equal_conditions(pair, team):
    odd = finished_run(other_conditions(document("din")), pair[0].version)
    page = text(client_for(make_member(team)), f"{PAGE}?runs={pair[0].pk}")
    assert "Choose a run to put beside the one of DIN v1" in page
    assert page.count("the same") == 1  # of the second, not of the odd one
    assert str(odd.result.fingerprint)[:12] in page


def test_the_picker_can_be_narrowed_to_a_model(pair, team):
    other = finished_run(document("dlrm"), make_version(make_model(team, name="DLRM")))
    body = client_for(make_member(team)).get(PAGE, {"model": other.version.model_id}).content.decode()
    assert f'value="{other.pk}"' in body and f'value="{pair[0].pk}"' not in body


def test_an_empty_picker_says_what_to_do():
    page = text(client_for(make_member(make_team())), PAGE)
    assert "No run has judged anything yet" in page


@pytest.mark.parametrize("words", ["not-an-id", "1,2"])
def test_what_is_no_id_is_said_so(words, team):
    answer = client_for(make_member(team)).get(PAGE, {"runs": words})
    assert answer.status_code == 400
    assert "ids of runs" in answer.content.decode()


def test_one_run_twice_is_no_comparison(pair, team):
    assert client_for(make_member(team)).get(PAGE, {"runs": asked(pair[0], pair[0])}).status_code == 400


def test_a_run_of_another_team_does_not_exist(pair, team):
    hidden = finished_run(document("din"))
    assert client_for(make_member(team)).get(PAGE, {"runs": asked(pair[0], hidden)}).status_code == 404


# ---- measured side by side -----------------------------------------------------------------------------------------


def test_the_button_starts_one_comparison_of_the_two_versions(pair, team):
    answer = client_for(make_member(team)).post(PAGE, {"runs": [run.pk for run in pair]})
    started = Run.objects.get(purpose="compare")
    assert answer.status_code == 302 and answer.headers["Location"] == reverse("run", args=[started.pk])
    assert (started.version, started.against) == (pair[1].version, pair[0].version)
    assert (started.status, started.target) == ("queued", "cpu")


def test_one_version_is_not_measured_against_itself(pair, team):
    again = finished_run(document("din"), pair[0].version)
    client = client_for(make_member(team))
    page = text(client, f"{PAGE}?runs={asked(pair[0], again)}")
    assert "cannot be measured side by side: both are of one version" in page
    assert client.post(PAGE, {"runs": [pair[0].pk, again.pk]}).status_code == 409
    assert not Run.objects.filter(purpose="compare").exists()


def test_a_viewer_may_read_the_comparison_and_start_nothing(pair, team):
    client = client_for(make_member(team, "viewer"))
    assert "your role in Ads ranking starts no runs" in text(client, f"{PAGE}?runs={asked(*pair)}")
    assert client.post(PAGE, {"runs": [run.pk for run in pair]}).status_code == 403


def test_a_version_whose_file_is_gone_cannot_be_measured(pair, team):
    from django.utils import timezone

    pair[0].version.deleted_at = timezone.now()
    pair[0].version.save()
    page = text(client_for(make_member(team)), f"{PAGE}?runs={asked(*pair)}")
    assert "the file of DIN v1 was deleted" in page


# ---- the API -------------------------------------------------------------------------------------------------------


def test_the_api_gives_the_figures_of_comparable_runs_and_says_what_is_derived(pair, team):
    found = api_for(make_member(team)).get(API, {"runs": asked(*pair)}).json()
    assert found["comparable"] is True and found["differences"] == []
    assert [row["headline"]["speedup"] for row in found["runs"]] == [3.0, 4.0]
    assert found["derived"] == [
        {"base": str(pair[0].pk), "run": str(pair[1].pk), "ratio_of_speedups": pytest.approx(4 / 3)}
    ]
    assert "not measured together" in found["statement"]


def test_the_api_gives_the_difference_and_no_figures_of_others(pair, team):
    odd = finished_run(other_conditions(document("din"), cores=64), pair[0].version)
    found = api_for(make_member(team)).get(API, {"runs": asked(pair[0], odd)}).json()
    assert found["comparable"] is False and found["derived"] == []
    assert found["differences"] == [{"key": "conditions.cores", "values": ["2", "64"]}]
    assert [row["headline"] for row in found["runs"]] == [None, None]


@pytest.mark.parametrize("query", [{}, {"runs": ""}, {"runs": "x,y"}])
def test_the_api_wants_two_runs(query, team):
    answer = api_for(make_member(team)).get(API, query)
    assert answer.status_code == 400
    assert answer.headers["Content-Type"] == "application/problem+json"


def test_the_api_knows_no_run_of_another_team(pair):
    assert api_for(make_member(make_team())).get(API, {"runs": asked(*pair)}).status_code == 404
