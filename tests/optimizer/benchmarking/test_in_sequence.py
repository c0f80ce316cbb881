"""Calls that go on from one another, as training steps do: each burst begins anew, and its last answer is compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from optimizer.benchmarking.bursts import Entrant, warm_up
from optimizer.benchmarking.rounds import run_round
from optimizer.benchmarking.sets import measure_set
from tests.optimizer.verifying.local import LocalChild


class RunningSum:
    """Answers the sum of all that it was given since the last reset."""

    device, inference_precision, in_sequence = "cpu", "float32", True

    def __init__(self, forgets: bool = True) -> None:
        self.total, self.forgets = 0.0, forgets

    def reset(self, nudge: int | None = None) -> None:
        if self.forgets:
            self.total = 0.0

    def stage(self, arrays: Any) -> Any:
        return [np.array(array) for array in arrays]

    def call(self, native: Any) -> float:
        self.total += float(native[0].sum())
        return self.total

    def outputs(self, native: float) -> list[np.ndarray]:
        return [np.array([native])]

    def inputs_after(self, native: Any) -> Any:
        return native


def entrant(name: str, contender: RunningSum) -> Entrant:
    return Entrant(name, LocalChild(contender))  # type: ignore[arg-type]


def draw() -> list[np.ndarray]:
    return [np.ones(3)]


def test_a_burst_begins_anew_and_what_is_compared_is_its_last_answer() -> None:
    both = {"a": entrant("a", RunningSum()), "b": entrant("b", RunningSum())}
    for one in both.values():
        warm_up(one, draw, 0.0)
        assert one.in_sequence
    for _ in range(2):
        done = run_round(both, draw, 4, rng=np.random.default_rng(0))
        assert done.in_sequence and len(done.sets) == 4, "a reference needs all of them"
        # four calls of three ones: the warm-up and the round before left nothing
        assert {name: float(given[0][0][0]) for name, given in done.answers.items()} == {"a": 12.0, "b": 12.0}


def test_the_reference_answers_the_whole_sequence_and_a_drift_is_caught() -> None:
    def differs(mine: Any, true: Any) -> str | None:
        return None if float(mine[0][0]) == float(true[0][0]) else f"{float(mine[0][0])} is not {float(true[0][0])}"

    starts = {name: (lambda f=forgets: LocalChild(RunningSum(f))) for name, forgets in (("base", True), ("off", False))}
    found = measure_set(
        starts,  # type: ignore[arg-type]
        draw,
        baseline="base",
        rng=np.random.default_rng(0),
        rounds=2,
        warm_up_s=0.0,
        checks={"base": differs, "off": differs},
        reference=LocalChild(RunningSum()),  # type: ignore[arg-type]
    )
    assert list(found.entrants) == ["base"]
    assert found.failed["off"].id == "benchmarking:user:answers-changed"


class Costly(RunningSum):
    """Its answer has a part that is not read while a burst is timed."""

    def outputs(self, native: float) -> list[np.ndarray]:
        return [np.array([native]), np.array([self.total, self.total])]

    def first_outputs(self, native: float) -> list[np.ndarray]:
        return [np.array([native])]


def test_what_is_costly_to_read_is_read_when_the_burst_is_over() -> None:
    child = LocalChild(Costly())
    child.call("benchmarking.stage", [np.ones(2)] * 3, timeout_s=1.0, calls=3)
    child.call("benchmarking.go", timeout_s=1.0, read=[1])
    (first,) = child.session.state["read"][1]
    assert first.tolist() == [4.0]
    reply = child.call("benchmarking.outputs", timeout_s=1.0, indices=[1])
    assert [array.tolist() for array in reply.arrays] == [[4.0], [6.0, 6.0]]
    assert reply.fields == {"outputs_per_set": 2, "changed": []}
