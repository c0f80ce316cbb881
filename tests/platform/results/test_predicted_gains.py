"""Predicted gains are kept with what came of them; coverage and bias are told over what the reader may see."""

from __future__ import annotations

import math
from typing import Any

import pytest
from django.urls import reverse

from fuseworks.accounts.permissions import Actor
from fuseworks.results.gains import GainQuery, gains_visible
from fuseworks.results.models import CheckedGain
from fuseworks.results.reading import gains
from fuseworks.results.when_finished import keep_predicted_gains
from fuseworks.runs.finished import finished_functions
from fuseworks.runs.models import Run
from optimizer.result import Result
from tests.platform.factories import (
    api_for,
    client_for,
    make_member,
    make_model,
    make_run,
    make_team,
    make_user,
    make_version,
)
from tests.platform.results.support import document

pytestmark = pytest.mark.django_db
MERGE = "pass merge_embedding_tables"


def told(
    low: float, high: float, realised: float | None = None, *, evidence: str = "ablation", **fields: Any
) -> dict[str, Any]:
    """One of a document's `checked_gains`."""
    measured = None
    if realised is not None:
        interval = {"low": realised - 0.1, "high": realised + 0.1} if evidence == "ablation" else None
        measured = {"gain": realised, "interval": interval, "evidence": evidence, "measured_on": "the winner"}
    return {
        "rule": "many_embeddings",
        "remedy": MERGE,
        "mended_by": [{"pass": "merge_embedding_tables"}],
        "predicted": {"low": low, "high": high, "model": "a share", "confidence": 0.8, "uncorrected": [1.0, 2.0]},
        "realised": measured,
        "not_realised_because": "" if realised is not None else "no candidate had this step",
        **fields,
    }


def ended(*checked: dict[str, Any], run: Run | None = None) -> Run:
    """A run that ended with these."""
    run = run or make_run(make_version(make_model(make_team())), status="succeeded")
    keep_predicted_gains(run, Result.model_validate({**document("din"), "checked_gains": list(checked)}))
    return run


def test_it_is_registered_for_every_run_that_ends() -> None:
    assert keep_predicted_gains in finished_functions()


def test_each_gain_of_the_document_is_a_row_with_its_own_figures() -> None:
    run = ended(told(1.1, 1.4, 1.3), told(1.0, 1.2, rule="other"))
    measured, not_measured = CheckedGain.objects.order_by("rule")
    assert (measured.run, measured.rule, measured.remedy, measured.target) == (run, "many_embeddings", MERGE, "cpu")
    assert (measured.predicted_low, measured.predicted_high, measured.confidence) == (1.1, 1.4, 0.8)
    assert (measured.uncorrected_low, measured.uncorrected_high, measured.model) == (1.0, 2.0, "a share")
    assert (measured.realised, measured.realised_low, measured.realised_high) == (1.3, 1.3 - 0.1, 1.3 + 0.1)
    assert (measured.evidence, measured.measured_on, measured.reason) == ("ablation", "the winner", "")
    assert (not_measured.realised, not_measured.evidence) == (None, "")
    assert not_measured.reason == "no candidate had this step"


@pytest.mark.parametrize("ends", [(0.0, 1.2), (1.3, 1.2), (float("nan"), 1.2), (1.1, float("inf")), (-1.0, 2.0)])
def test_an_interval_that_is_none_is_left_out(ends: tuple[float, float]) -> None:
    ended(told(*ends, 1.2), told(1.1, 1.4, 1.2))
    assert [row.predicted_low for row in CheckedGain.objects.all()] == [1.1]


def test_a_gain_of_nothing_is_left_out() -> None:
    ended(told(1.1, 1.4, 0.0))
    assert CheckedGain.objects.count() == 0


# ---- how predictions did ---------------------------------------------------------------------------------------------


def test_coverage_is_of_what_was_measured_and_bias_balances_twice_and_half() -> None:
    ended(
        told(1.0, 1.44, 1.2),  # held, at its middle
        told(1.0, 1.44, 2.4, evidence="finalists"),  # half of it was predicted
        told(1.0, 1.44),
    )
    one = gains.track(list(CheckedGain.objects.all()))
    assert (one.predictions, one.measured, one.judged) == (3, 2, 1)
    assert one.coverage == 0.5
    assert one.predicted == pytest.approx(1.2)
    assert one.realised == pytest.approx(math.sqrt(1.2 * 2.4))
    assert one.bias == pytest.approx(math.sqrt(1 / 2) - 1)


def test_the_ends_of_an_interval_belong_to_it() -> None:
    ended(told(1.1, 1.3, 1.1), told(1.1, 1.3, 1.3), told(1.1, 1.3, 1.31))
    assert gains.track(list(CheckedGain.objects.all())).coverage == pytest.approx(2 / 3)


def test_without_a_measurement_nothing_is_told_of_coverage() -> None:
    ended(told(1.1, 1.3))
    one = gains.track(list(CheckedGain.objects.all()))
    assert (one.measured, one.coverage, one.bias, one.predicted) == (0, None, None, None)
    assert gains.scatter(CheckedGain.objects.all()) is None


def test_tracks_are_by_rule_and_remedy_the_most_measured_first() -> None:
    ended(told(1.1, 1.3), told(1.1, 1.3), told(1.1, 1.3, 1.2, rule="other"), told(1.1, 1.3, remedy="pass split"))
    assert [(one.rule, one.remedy, one.measured) for one in gains.tracks(CheckedGain.objects.all())] == [
        ("other", MERGE, 1),
        ("many_embeddings", MERGE, 0),
        ("many_embeddings", "pass split", 0),
    ]


def test_the_picture_has_what_came_true_on_the_diagonal() -> None:
    ended(told(1.2, 1.2, 1.2), told(1.5, 1.5, 1.5), told(1.0, 2.0, 1.0, evidence="screening"))
    drawn = gains.scatter(CheckedGain.objects.order_by("created_at", "predicted_low"))
    assert drawn is not None
    for mark in drawn.marks:
        if mark.judged:
            # as far from the left end as from the lower one
            assert mark.x - drawn.first == pytest.approx(drawn.bottom - mark.y, abs=0.11)
        assert drawn.first <= mark.left <= mark.x <= mark.right <= drawn.last
        assert drawn.top <= mark.y <= drawn.bottom
    assert sum(not mark.judged for mark in drawn.marks) == 1


# ---- who sees it -----------------------------------------------------------------------------------------------------


def two_teams() -> tuple[Any, Any]:
    """A member of each of two teams, whose runs predicted one gain each."""
    people = []
    for index, realised in enumerate((1.2, 1.9)):
        team = make_team()
        user = make_member(team, "viewer")
        run = make_run(make_version(make_model(team, name=f"Model {index}")), status="succeeded")
        ended(told(1.1, 1.3, realised), run=run)
        people.append(user)
    return people[0], people[1]


def test_a_reader_sees_what_his_teams_runs_predicted_and_no_others() -> None:
    first, second = two_teams()
    mine, others = (api_for(user).get(reverse("api:predicted-gains")).json()["results"] for user in (first, second))
    assert [(row["realised"], row["covered"]) for row in mine] == [(1.2, True)]
    assert [(row["realised"], row["covered"]) for row in others] == [(1.9, False)]
    page = client_for(first).get(reverse("predicted_gains")).content.decode()
    assert "1.20×" in page and "1.90×" not in page


def test_the_api_tells_how_each_remedy_did_and_takes_the_same_questions() -> None:
    first, _ = two_teams()
    found = api_for(first).get(reverse("api:predicted-gain-tracks")).json()
    assert found["all"]["measured"] == 1 and found["all"]["coverage"] == 1.0
    assert [(one["rule"], one["remedy"]) for one in found["by_remedy"]] == [("many_embeddings", MERGE)]
    none = api_for(first).get(reverse("api:predicted-gain-tracks"), {"rule": "nothing"}).json()
    assert none["by_remedy"] == [] and none["all"]["coverage"] is None
    rows = api_for(first).get(reverse("api:predicted-gains"), {"remedy": MERGE, "target": "cpu"}).json()
    assert rows["count"] == 1


def test_the_page_of_one_remedy_lists_its_runs() -> None:
    first, _ = two_teams()
    address = reverse("predicted_gains") + f"?rule=many_embeddings&remedy={MERGE.replace(' ', '+')}"
    page = client_for(first).get(address).content.decode()
    assert "Each prediction" in page and "Model 0" in page
    assert "ablation, the winner without it" in page
    nothing = client_for(first).get(reverse("predicted_gains") + "?rule=none").content.decode()
    assert "No prediction fits" in nothing


def test_whoever_has_seen_no_run_is_told_where_predictions_come_from() -> None:
    page = client_for(make_user()).get(reverse("predicted_gains")).content.decode()
    assert "Nothing was predicted yet" in page


def test_questions_are_answered_by_rule_remedy_and_target() -> None:
    first, _ = two_teams()
    actor = Actor(user=first)
    assert gains_visible(actor=actor, query=GainQuery(target="cuda:sm_90")).count() == 0
    assert gains_visible(actor=actor, query=GainQuery(rule="many_embeddings", remedy=MERGE)).count() == 1
