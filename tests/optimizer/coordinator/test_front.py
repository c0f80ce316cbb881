"""The front: no worse in all three and better in one dominates; differences that nobody tells apart do not count."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.coordinator.answer import Answer
from optimizer.coordinator.front import front
from optimizer.result import Comparison, Evaluation, Interval, RunStatus, Verdict
from optimizer.spec import Purpose
from tests.optimizer.coordinator.support import context
from tests.optimizer.reporting.sample import NUMERICS, evaluation, performance

MIB = 1 << 20


def passed(name: str, speedup: float | None, memory: int | None = 200 * MIB, error: float = 4e-7) -> Evaluation:
    outputs = [{**NUMERICS, "error": error, "baseline_error": 2e-5}]
    return Evaluation.model_validate(
        evaluation(
            name,
            "passed",
            [{"backend": "eager"}],
            performance=performance(10.0 / (speedup or 1.0), peak_memory_bytes=memory),
            verification={"passed": True, "outputs": outputs},
            screened_speedup=speedup,
        )
    )


def original(memory: int = 200 * MIB) -> Evaluation:
    made = passed("baseline", None, memory)
    return made.model_copy(update={"verification": None})


def judged(other: str, speedup: float) -> Comparison:
    return Comparison(
        base="baseline",
        other=other,
        speedup=speedup,
        interval=Interval(low=speedup, high=speedup),
        verdict=Verdict.FASTER,
        noise_floor=0.01,
        pairs=6,
        looks=1,
        same_settings=True,
        log_speedups=[0.1],
    )


def relations(*evaluations: Evaluation, comparisons: tuple[Comparison, ...] = ()) -> dict[str, str | None]:
    found = front({one.candidate.name: one for one in evaluations}, comparisons)
    return {point.candidate: point.dominated_by for point in found}


def test_each_that_is_best_in_something_is_on_the_front_and_the_rest_is_dominated() -> None:
    assert relations(
        passed("fast", 3.0, 400 * MIB, 4e-3),
        passed("small", 1.5, 100 * MIB, 4e-3),
        passed("exact", 1.2, 400 * MIB, 1e-6),
        passed("slow", 1.1, 400 * MIB, 5e-3),
    ) == {"fast": None, "small": None, "exact": None, "slow": "fast"}


@pytest.mark.parametrize(
    ("speedup", "memory", "error"),
    [(1.99, 200 * MIB, 4e-7), (2.0, 201 * MIB, 4e-7), (2.0, 200 * MIB, 9e-6)],
    ids=["half a percent of speed", "half a percent of memory", "an error that is rounding"],
)
def test_what_nobody_tells_apart_dominates_nothing(speedup: float, memory: int, error: float) -> None:
    assert relations(passed("a", 2.0), passed("b", speedup, memory, error)) == {"a": None, "b": None}


@pytest.mark.parametrize(
    ("speedup", "memory", "error"), [(1.9, 200 * MIB, 4e-7), (2.0, 210 * MIB, 4e-7), (2.0, 200 * MIB, 3e-5)]
)
def test_what_is_worse_in_one_and_better_in_none_is_dominated(speedup: float, memory: int, error: float) -> None:
    assert relations(passed("a", 2.0), passed("b", speedup, memory, error))["b"] == "a"


def test_a_judged_speedup_takes_the_place_of_a_screened_one_and_the_original_stands_at_one() -> None:
    evaluations = {one.candidate.name: one for one in (passed("a", 3.0), passed("b", 2.0), original())}
    found = front(evaluations, [judged("a", 1.5)])
    assert [(point.candidate, point.speedup, point.judged) for point in found] == [
        ("b", 2.0, False),
        ("a", 1.5, True),
        ("baseline", 1.0, True),
    ]
    assert found[-1].error == 2e-5, "as verification found it"


def test_what_did_not_pass_or_was_not_measured_has_no_place() -> None:
    wrong = Evaluation.model_validate(evaluation("wrong", "incorrect_numerics", reason="off"))
    unmeasured = passed("unmeasured", 2.0).model_copy(update={"performance": None, "screened_speedup": None})
    assert relations(wrong, unmeasured, passed("no memory", 2.0, None), passed("good", 1.5)) == {"good": None}


@pytest.mark.parametrize(("purpose", "points"), [("optimize", 1), ("replay", 1), ("compare", 0)])
def test_the_answer_has_the_front_of_one_model_and_none_of_two(tmp_path: Any, purpose: str, points: int) -> None:
    made, answer = context(tmp_path), Answer()
    made.spec = made.spec.model_copy(update={"purpose": Purpose(purpose)})
    answer.file(passed("a", 2.0))
    assert len(answer.result(made, RunStatus.SUCCEEDED).front) == points
