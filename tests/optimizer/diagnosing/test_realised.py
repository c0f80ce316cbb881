"""Predicted gains beside measured ones: the strongest evidence, by its name; none of what was measured together."""

from __future__ import annotations

import math
from typing import Any

import pytest

from optimizer.diagnosing.realised import checked_gains
from optimizer.result import (
    AblationRow,
    Candidate,
    CheckedGain,
    Comparison,
    Evaluation,
    EvaluationStatus,
    Finalist,
    Finding,
    Interval,
    PredictedGain,
    Result,
    RunStatus,
    Verdict,
)
from optimizer.spec import Purpose

SPLIT = {"pass": "split", "options": {"most": 2}}
MERGE = {"pass": "merge"}
TUNED = {"runtime": {"allocator": "glibc-no-trim", "huge_pages": True}}
ENGINE = {"backend": "aot_inductor"}


def finding(*mended_by: dict[str, Any], gain: bool = True) -> Finding:
    predicted = PredictedGain(low=1.1, high=1.4, model="a share of the time") if gain else None
    return Finding(rule="a_rule", severity="medium", title="slow", gain=predicted, mended_by=list(mended_by))


def plan(name: str, *steps: dict[str, Any]) -> Candidate:
    return Candidate.model_validate({"name": name, "steps": [*steps, ENGINE]})


WINNER = plan("winner", TUNED, SPLIT, MERGE)


def screened(candidate: Candidate, speedup: float | None) -> Evaluation:
    return Evaluation(candidate=candidate, status=EvaluationStatus.PASSED, screened_speedup=speedup)


def result(*findings: Finding, **fields: Any) -> Result:
    fields.setdefault("candidates", [screened(WINNER, None)])
    return Result(
        purpose=Purpose.OPTIMIZE, status=RunStatus.SUCCEEDED, winner="winner", findings=list(findings), **fields
    )


def only(found: list[CheckedGain]) -> CheckedGain:
    (one,) = found
    return one


def row(step: dict[str, Any], gain: float | None, **fields: Any) -> AblationRow:
    interval = Interval(low=gain - 0.1, high=gain + 0.1) if gain is not None else None
    return AblationRow(step=step, gain=gain, interval=interval, **fields)


def compared(base: str, other: str, logs: list[float]) -> Comparison:
    return Comparison(
        base=base,
        other=other,
        speedup=1.0,
        interval=Interval(low=0.9, high=1.1),
        verdict=Verdict.CANNOT_TELL,
        noise_floor=0.0,
        pairs=len(logs),
        looks=1,
        same_settings=False,
        log_speedups=logs,
    )


def test_what_predicts_nothing_and_what_no_plan_can_mend_is_left_out() -> None:
    assert checked_gains(result(finding({"pass": "split"}, gain=False), finding())) == []


def test_the_ablation_of_the_step_is_the_gain_with_its_interval() -> None:
    ablation = [row(MERGE, 0.98), row(SPLIT, 1.3, measured_on="the leader")]
    found = only(checked_gains(result(finding({"pass": "split"}), ablation=ablation)))
    assert (found.rule, found.remedy) == ("a_rule", "pass split")
    assert found.predicted.high == 1.4
    assert found.realised is not None
    assert (found.realised.evidence, found.realised.gain, found.realised.measured_on) == ("ablation", 1.3, "the leader")
    assert found.realised.interval is not None and found.realised.interval.high == pytest.approx(1.4)


def test_a_row_of_several_passes_is_the_gain_of_exactly_these() -> None:
    ablation = [row({"passes": ["hoist", "fold"]}, 1.05)]
    both = finding({"pass": "fold"}, {"pass": "hoist"})
    found = only(checked_gains(result(both, ablation=ablation)))
    assert found.realised is not None and found.realised.gain == 1.05
    alone = only(checked_gains(result(finding({"pass": "fold"}), ablation=ablation)))
    assert alone.realised is None and alone.not_realised_because == "no candidate had this step"


def test_without_an_ablation_two_finalists_that_differ_in_the_step_tell_it_and_are_not_called_judged() -> None:
    finalists = [
        Finalist(candidate=WINNER, speedup=3.0),
        Finalist(candidate=plan("winner - split", TUNED, MERGE), speedup=2.0),
        Finalist(candidate=plan("bare", TUNED), speedup=1.9),
    ]
    ablation = [row(SPLIT, None, reason="the time budget left no room to measure it")]
    found = only(checked_gains(result(finding({"pass": "split"}), finalists=finalists, ablation=ablation)))
    assert found.realised is not None
    assert (found.realised.evidence, found.realised.gain) == ("finalists", 1.5)
    assert found.realised.interval is None
    assert found.not_realised_because == ""


def test_last_of_all_two_candidates_of_the_screening_tell_it() -> None:
    one, other = plan("a", TUNED, SPLIT), plan("b", TUNED)
    candidates = [screened(one, 1.8), screened(other, 1.5), screened(plan("c", TUNED, MERGE), None)]
    found = only(checked_gains(result(finding({"pass": "split"}), candidates=candidates)))
    assert found.realised is not None
    assert (found.realised.evidence, found.realised.measured_on) == ("screening", "a")
    assert found.realised.gain == pytest.approx(1.2)


def test_threads_are_told_by_a_plan_on_fewer_beside_itself() -> None:
    fewer = {"runtime": {**TUNED["runtime"], "threads": 1}}
    candidates = [screened(plan("two", TUNED, SPLIT), 2.0), screened(plan("one", fewer, SPLIT), 2.2)]
    found = only(checked_gains(result(finding({"runtime": {"threads": 1}}), candidates=candidates)))
    assert found.realised is not None and found.realised.gain == pytest.approx(1.1)


def test_settings_are_told_by_the_original_in_both_from_the_sets_of_the_judgement() -> None:
    # per set: default over winner is 1.5 times what the same settings over winner is
    same = [0.50, 0.54, 0.46]
    deployed = [log + math.log(1.5) for log in same]
    comparisons = [
        compared("baseline", "winner", same),
        compared("baseline (default settings)", "winner", deployed),
    ]
    ablation = [row(TUNED, 1.2)]
    found = only(checked_gains(result(finding(TUNED), comparisons=comparisons, ablation=ablation)))
    assert found.realised is not None and found.realised.interval is not None
    assert (found.realised.evidence, found.realised.measured_on) == ("judgement", "baseline")
    assert found.realised.gain == pytest.approx(1.5)
    assert found.realised.interval.low == pytest.approx(1.5) and found.realised.interval.high == pytest.approx(1.5)


def test_the_judgement_tells_nothing_of_settings_that_were_set_with_others() -> None:
    both = {"runtime": {**TUNED["runtime"], "denormals": "flushed"}}
    winner = plan("winner", both, SPLIT)
    comparisons = [
        compared("baseline", "winner", [0.5, 0.5]),
        compared("baseline (default settings)", "winner", [0.7, 0.7]),
    ]
    given = result(finding(TUNED), comparisons=comparisons, candidates=[screened(winner, None)])
    found = only(checked_gains(given))
    assert found.realised is None
    assert found.not_realised_because == "it was measured only together with other steps"


def test_a_step_that_was_not_measured_has_the_ablations_own_reason() -> None:
    ablation = [row(SPLIT, None, reason="it was not built within the time budget")]
    found = only(checked_gains(result(finding({"pass": "split"}), ablation=ablation)))
    assert found.realised is None
    assert found.not_realised_because == "it was not built within the time budget"
    untried = only(checked_gains(result(finding({"pass": "elsewhere"}))))
    assert untried.not_realised_because == "no candidate had this step"
