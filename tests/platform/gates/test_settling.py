"""A gate is settled once, when its run ends, by the interval of latency_ratio."""

from __future__ import annotations

import pytest

from fuseworks.gates.models import GateCheck
from fuseworks.gates.rules import exit_code
from fuseworks.gates.when_finished import settle, settle_without_result
from fuseworks.runs.finished import ended_functions, finished_functions
from fuseworks.runs.models import Run
from optimizer.result import Result
from tests.platform.factories import make_run
from tests.platform.results.support import compared, document, two_versions

pytestmark = pytest.mark.django_db


def gated(status: str = "succeeded", limit: float = 1.05) -> Run:
    before, after = two_versions()
    run = make_run(after, purpose="compare", against=before, status=status)
    GateCheck.objects.create(run=run, max_latency_ratio=limit)
    return run


def settled(run: Run, found: dict[str, object]) -> GateCheck:
    settle(run, Result.model_validate(found))
    return GateCheck.objects.get(run=run)


def test_it_passes_when_the_upper_end_is_within_the_limit():
    run = gated()
    # before / after is 0.96 to 1.25, so after / before is 0.8 to 1.0416…
    check = settled(run, compared(run.against, low=0.96, high=1.25))
    assert check.outcome == "pass"
    assert check.latency_ratio_low == pytest.approx(0.8)
    assert check.latency_ratio_high == pytest.approx(1 / 0.96)
    assert check.latency_ratio == pytest.approx(1 / 1.2**0.5)  # sqrt(0.96 * 1.25) = sqrt(1.2)


def test_it_fails_when_the_lower_end_is_above_the_limit():
    run = gated()
    # before / after is 0.8 to 0.9, so after / before is 1.11 to 1.25
    check = settled(run, compared(run.against, low=0.8, high=0.9, verdict="slower"))
    assert (check.outcome, check.latency_ratio_high) == ("fail", pytest.approx(1.25))


def test_it_cannot_tell_when_the_limit_lies_within_the_interval():
    run = gated()
    check = settled(run, compared(run.against, low=0.8, high=1.25))
    assert check.outcome == "cannot_tell"
    assert (check.latency_ratio_low, check.latency_ratio_high) == (pytest.approx(0.8), pytest.approx(1.25))


@pytest.mark.parametrize(("low", "high", "outcome"), [(0.96, 1.25, "cannot_tell"), (0.5, 0.6, "fail")])
def test_a_comparison_that_carries_no_verdict_lets_nothing_pass_and_says_why(low: float, high: float, outcome: str):
    run = gated()
    found = compared(run.against, low=low, high=high)
    found["comparisons"][0]["reason"] = why = "only 3 of the 6 pairs that a verdict needs fitted into the time"
    check = settled(run, found)
    assert (check.outcome, check.reason) == (outcome, why)


def test_a_slow_version_fails_also_when_it_was_the_base_of_the_comparison():
    run = gated()
    # after / before is 1.1 to 1.3: the document calls `other` faster, which is the version before
    check = settled(run, compared(run.version, low=1.1, high=1.3, verdict="faster"))
    assert (check.outcome, check.latency_ratio_low, check.latency_ratio_high) == ("fail", 1.1, 1.3)


def test_nothing_is_settled_by_a_document_about_other_uploads():
    check = settled(gated(), document("compare"))
    assert (check.outcome, check.latency_ratio) == ("no_result", None)


@pytest.mark.parametrize("status", ["failed", "errored", "timed_out", "cancelled"])
def test_a_run_that_did_not_succeed_gives_no_result_even_when_it_measured_something(status):
    run = gated(status)
    found = compared(run.against, low=0.96, high=1.0, status=status)
    assert settled(run, found).outcome == "no_result"


@pytest.mark.parametrize(("side", "outcome"), [("before", "cannot_tell"), ("after", "no_result")])
def test_it_cannot_tell_when_the_version_before_cannot_be_packaged_and_blames_only_the_new_one(side, outcome):
    run = gated("failed")
    problem = {"id": f"compare:user:{side}-not-packaged", "side": "user", "message": "its graph has no such tables"}
    found = document("compare") | {"status": "failed", "problem": problem, "comparisons": []}
    check = settled(run, found)
    assert (check.outcome, check.latency_ratio) == (outcome, None)
    check.refresh_from_db()
    assert exit_code(check) == {"before": 2, "after": 4}[side]


def test_a_run_that_ends_without_a_document_gives_no_result():
    run = gated("errored")
    settle_without_result(run)
    assert GateCheck.objects.get(run=run).outcome == "no_result"


def test_a_settled_gate_stays_as_it_is():
    run = gated()
    settled(run, compared(run.against, low=0.96, high=1.25))
    assert settled(run, compared(run.against, low=0.5, high=0.6)).outcome == "pass"
    settle_without_result(run)
    assert GateCheck.objects.get(run=run).outcome == "pass"


def test_a_run_without_a_gate_gets_none():
    before, after = two_versions()
    run = make_run(after, purpose="compare", against=before, status="succeeded")
    settle(run, Result.model_validate(compared(before, low=0.9, high=1.1)))
    settle_without_result(run)
    assert not GateCheck.objects.exists()


def test_both_are_registered_for_the_end_of_runs():
    assert settle in finished_functions()
    assert settle_without_result in ended_functions()
