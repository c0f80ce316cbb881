"""Contenders that are different models: after timing each is held against its own float64 reference alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optimizer.benchmarking import bursts
from optimizer.benchmarking.sets import MeasuredSet, measure_set
from optimizer.sandbox import Reply
from tests.optimizer.benchmarking.simulated import SimulatedChild, drawer, starter


class Reference(SimulatedChild):
    """Answers with `factor` times its inputs."""

    def __init__(self, factor: float) -> None:
        super().__init__(np.random.default_rng(0), 1.0, 0.0, 0.0)
        self.factor, self.asked = factor, 0
        self.pause()

    def run(self, arrays: list[np.ndarray], fields: dict[str, Any]) -> Reply:
        self.asked += 1
        told = {"outputs_per_set": 1, "failed": {}, "mutated": [], "seconds": [0.1] * len(arrays), "overwritten": 0}
        return Reply(told, [array * self.factor for array in arrays])


class Tripling(SimulatedChild):
    """Another model: its right answer is three times the input, where the baseline's is twice."""

    def answer(self, staged: np.ndarray) -> np.ndarray:
        return staged * 3


@pytest.fixture(autouse=True)
def made_up_times_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bursts, "CLOCK_SLACK_NS", 10**12)
    monkeypatch.setattr("os.cpu_count", lambda: 1)


def agree(mine: Any, true: Any) -> str | None:
    return None if np.allclose(mine[0], true[0]) else "differs"


def measured(references: dict[str, Any], **options: Any) -> MeasuredSet:
    rng = np.random.default_rng(3)
    starts: Any = {"baseline": starter(rng), "other": lambda: Tripling(rng, 1.0, 0.01, 0.01)}
    return measure_set(
        starts, drawer(rng), baseline="baseline", rng=rng, rounds=3, checks={"baseline": agree, "other": agree},
        own_references=references, **options,
    )  # fmt: skip


def test_each_is_held_against_its_own_reference_once_a_set() -> None:
    references = {"baseline": Reference(2), "other": Reference(3)}
    one = measured(references)
    assert one.failed == {} and set(one.entrants) == {"baseline", "other"}
    assert [reference.asked for reference in references.values()] == [1, 1]


def test_a_model_that_answers_wrong_while_it_is_timed_drops_out() -> None:
    one = measured({"baseline": Reference(2), "other": Reference(4)})
    assert one.failed["other"].id == "benchmarking:user:answers-changed"
    assert set(one.entrants) == {"baseline"}


def test_without_one_of_its_own_a_contender_is_held_against_the_baseline() -> None:
    assert measured({"baseline": Reference(2)}).failed["other"].id == "benchmarking:user:answers-changed"


def test_references_stand_still_while_anything_is_measured() -> None:
    reference = Reference(3)
    running: list[bool] = []

    class Watching(Tripling):
        def go(self, arrays: list[np.ndarray], fields: dict[str, Any]) -> Reply:
            running.append(reference.running)
            return super().go(arrays, fields)

    reference.resume()
    rng = np.random.default_rng(3)
    starts: Any = {"baseline": starter(rng), "other": lambda: Watching(rng, 1.0, 0.01, 0.01)}
    measure_set(
        starts, drawer(rng), baseline="baseline", rng=rng, rounds=3, checks={"other": agree},
        own_references={"other": reference},
    )  # fmt: skip
    assert running and not any(running)
