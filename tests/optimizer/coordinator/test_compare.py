"""Two models answer the same inputs: what lies between them stands in numerics and notes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from optimizer.coordinator import compare
from optimizer.coordinator.answer import Answer
from optimizer.coordinator.sides import AFTER, BEFORE, Side, as_uploaded
from optimizer.errors import FuseworksError
from optimizer.result import Candidate, Rewrite, Site
from optimizer.spec import BackendStep, Workload
from tests.optimizer.coordinator.support import context
from tests.optimizer.verifying.local import LocalChild, TorchContender

WORKLOAD = Workload.model_validate(
    {
        "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 3]}],
        "dims": {"batch": {"serve": [10], "max": 20}},
    }
)


class Ending(LocalChild):
    def __enter__(self) -> Ending:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Model:
    """A bench around a function: all that comparing answers needs of one."""

    def __init__(self, function: Any, workload: Workload = WORKLOAD, outputs: tuple[str, ...] = ("y",)) -> None:
        self.workload = workload
        self.captured = SimpleNamespace(
            upload=Path("model.py"), inspection=SimpleNamespace(outputs=[{"name": name} for name in outputs])
        )
        self.answer = Answer()
        self.child = Ending(TorchContender(function))
        self.shop = SimpleNamespace(
            build=lambda candidate: None, load=lambda built, settings, name: SimpleNamespace(child=self.child)
        )

    def baseline(self, settings: Any) -> Candidate:
        return Candidate(name="baseline", steps=[BackendStep(backend="eager")], peer=True)

    def side(self, role: Any = BEFORE) -> Side:
        return as_uploaded(role, self)  # type: ignore[arg-type]


def alike(tmp_path: Path, before: Model, after: Model) -> tuple[str, Answer]:
    answer = Answer()
    return compare._answer_alike(context(tmp_path), answer, before.side(), after.side(AFTER)), answer


def test_both_get_the_same_inputs_of_at_least_64_samples(tmp_path: Path) -> None:
    seen: list[list[np.ndarray]] = [[], []]

    def keeping(at: int) -> Any:
        return lambda x: seen[at].append(x.numpy().copy()) or x * 2

    before, after = Model(keeping(0)), Model(keeping(1))
    told, answer = alike(tmp_path, before, after)
    assert len(seen[0]) == len(seen[1]) == 7  # sets of ten
    for one, other in zip(*seen, strict=True):
        np.testing.assert_array_equal(one, other)
    (row,) = answer.numerics
    assert (row.output, row.samples, row.error, row.passed) == ("y", 70, 0.0, True)
    assert told.startswith("Their answers are alike") and answer.notes == []
    assert not before.child.alive and not after.child.alive


def test_a_model_that_answers_otherwise_is_told_and_not_refused(tmp_path: Path) -> None:
    told, answer = alike(tmp_path, Model(lambda x: x), Model(lambda x: x * 1.1))
    (row,) = answer.numerics
    assert not row.passed
    assert row.error == pytest.approx(0.1, rel=0.15)  # a tenth of answers of mean about 0, spread 1
    assert told.startswith("Their answers differ: y differs by")


def test_the_workloads_own_bound_is_what_counts_as_alike(tmp_path: Path) -> None:
    bounded = WORKLOAD.model_copy(update={"limits": WORKLOAD.limits.model_copy(update={"max_error": 0.5})})
    _, answer = alike(tmp_path, Model(lambda x: x, bounded), Model(lambda x: x * 1.1, bounded))
    assert answer.numerics[0].passed and answer.numerics[0].allowed == 0.5


def test_outputs_that_cannot_be_compared_are_noted(tmp_path: Path) -> None:
    told, answer = alike(tmp_path, Model(lambda x: x), Model(lambda x: x[:, :2]))
    assert answer.numerics == []
    assert answer.notes == ["The answers y were not compared: shapes [10, 3] and [10, 2]."]
    assert told == "Their answers could not be compared."
    told, answer = alike(tmp_path, Model(lambda x: x), Model(lambda x: (x, x)))
    assert answer.notes == ["The answers were not compared: 1 or 2 outputs."]


def test_an_argmax_is_compared_by_count(tmp_path: Path) -> None:
    told, answer = alike(tmp_path, Model(lambda x: x.argmax(-1)), Model(lambda x: torch.zeros(len(x)).long()))
    (row,) = answer.numerics
    assert row.dtype == "int64" and 0.4 < row.error < 0.9
    assert "integers" in told


def test_a_pass_that_finds_less_in_the_new_model_is_named() -> None:
    def model(name: str, **places: int) -> Side:
        one = Model(lambda x: x)
        one.captured.upload = Path(name)
        one.answer.rewrites = [
            Rewrite(
                pass_=pass_,
                applied=[Site(node=f"n{n}", reason="done") for n in range(count)],
                nodes_before=9,
                nodes_after=9,
                seconds=0.0,
            )
            for pass_, count in places.items()
        ]
        return one.side()

    before, after = model("before.py", merge=3, fold=1, fuse=2), model("after.py", merge=1, fold=1)
    assert compare._applied_otherwise(before, after) == [
        "merge applied in 3 places of before.py and in 1 of after.py.",
        "fuse applied in 2 places of before.py and in 0 of after.py.",
    ]


def test_models_that_are_not_called_alike_are_refused() -> None:
    other = WORKLOAD.model_copy(update={"inputs": [WORKLOAD.inputs[0].model_copy(update={"dtype": "int64"})]})
    with pytest.raises(FuseworksError) as caught:
        compare._called_alike(WORKLOAD, other)
    assert caught.value.id == "compare:user:inputs-differ" and caught.value.place == "x"
