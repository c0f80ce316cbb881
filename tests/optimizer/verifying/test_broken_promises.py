"""Inputs that break a promise: each differs from a kept one in what a wrong check may overlook; probes put them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

from optimizer.compiling.guarded import Guarded, repeats
from optimizer.spec import Policy, Workload
from optimizer.verifying.broken_promises import broken_promises
from optimizer.verifying.reference import TorchReference
from optimizer.verifying.verify import Verifier
from tests.optimizer.verifying.local import LocalChild, TorchContender


def workload(batch: int = 6, top: int = 8, **changes: Any) -> Workload:
    document = {
        "inputs": [
            {"name": "user", "dtype": "float32", "shape": ["batch", 3]},
            {"name": "item", "dtype": "float32", "shape": ["batch", 3]},
            {"name": "ids", "dtype": "int64", "shape": ["batch", 2], "values": {"below": 5}},
        ],
        "dims": {"batch": {"serve": [batch], "min": 1, "max": top}},
        "contracts": [{"same_over_batch": ["ids", "user"]}],
    }
    return Workload.model_validate({**document, **changes})


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def rows_that_differ(array: np.ndarray) -> list[int]:
    return [row for row in range(len(array)) if not np.array_equal(array[row], array[0])]


def test_one_row_differs_at_the_end_in_the_middle_and_in_each_input_alone() -> None:
    sets = {edge.name.removeprefix("promise broken: "): edge for edge in broken_promises(workload(), rng())}
    where = {name: [rows_that_differ(edge.arrays[place]) for place in (0, 2)] for name, edge in sets.items()}
    assert where["another last row"] == [[5], [5]]
    assert where["another row in the middle"] == [[3], [3]]
    assert where["another first row"] == [[1, 2, 3, 4, 5], [1, 2, 3, 4, 5]]
    assert where["user alone"] == [[5], []]
    assert where["ids alone"] == [[], [5]]
    assert len(where["rows of their own"][0]) == 5
    assert all(np.isfinite(edge.arrays[0]).all() for edge in sets.values()), "an engine may drop a NaN"
    for edge in sets.values():
        assert edge.arrays[2].min() >= 0 and edge.arrays[2].max() < 5
        assert len(rows_that_differ(edge.arrays[1])) == 5, "nothing is promised of the item"


def test_a_batch_of_one_is_made_larger_where_it_may_be() -> None:
    assert all(len(edge.arrays[0]) == 3 for edge in broken_promises(workload(batch=1), rng()))
    assert broken_promises(workload(batch=1, top=1), rng()) == []


def test_there_are_none_without_a_contract() -> None:
    assert broken_promises(workload(contracts=[]), rng()) == []


class Ranker(nn.Module):
    def forward(self, user: torch.Tensor, item: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return (user * item).sum(1) + ids.sum(1) * item[:, 0]


class Repeating(Ranker):
    """Right while the promise is kept."""

    def forward(self, user: torch.Tensor, item: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return super().forward(user[:1], item, ids[:1])


@pytest.fixture(scope="module")
def verifier(tmp_path_factory: pytest.TempPathFactory) -> Verifier:
    path = tmp_path_factory.mktemp("ranker") / "model.pt2"
    example = (torch.zeros(3, 3), torch.zeros(3, 3), torch.zeros(3, 2, dtype=torch.int64))
    batch = Dim("batch", min=1, max=8)
    torch.export.save(torch.export.export(Ranker(), example, dynamic_shapes=({0: batch},) * 3), path)
    made = Verifier(workload(), Policy(), rng(), LocalChild(TorchReference(Path(path))))  # type: ignore[arg-type]
    made.prepare(LocalChild(TorchContender(Ranker())))  # type: ignore[arg-type]
    return made


def guarded(places: list[int]) -> Guarded:
    usual, otherwise = (TorchContender(function) for function in (Repeating(), Ranker()))
    return Guarded(usual, otherwise, places)  # type: ignore[arg-type]


def failed(verifier: Verifier, contender: Any) -> set[str]:
    probes = verifier.verify(LocalChild(contender)).probes  # type: ignore[arg-type]
    return {probe.name.removeprefix("promise broken: ") for probe in probes if not probe.passed}


def test_a_rewrite_that_looks_at_every_promised_input_passes(verifier: Verifier) -> None:
    found = verifier.verify(LocalChild(guarded([0, 2])))  # type: ignore[arg-type]
    assert found.passed, found.reason
    broken = [probe for probe in found.probes if probe.name.startswith("promise broken")]
    assert len(broken) == 6 and all(probe.judged for probe in broken)


def test_a_rewrite_that_trusts_the_promise_is_caught(verifier: Verifier) -> None:
    caught = failed(verifier, TorchContender(Repeating()))
    assert {"another last row", "another row in the middle"} <= caught


def test_a_rewrite_that_forgets_one_input_is_caught_by_that_input(verifier: Verifier) -> None:
    assert failed(verifier, guarded([0])) == {"ids alone"}
    assert "user alone" in failed(verifier, guarded([2]))


def test_rows_are_compared_bit_by_bit() -> None:
    nan, zero = np.float32("nan"), np.float32(0)
    assert repeats(np.array([[nan], [nan]])) and repeats(torch.tensor([[nan], [nan]]))
    assert not repeats(np.array([zero, -zero])) and not repeats(torch.tensor([0.0, -0.0]))
    assert not repeats(np.array([1.0, nan], np.float32))
    for dtype in (torch.bfloat16, torch.float16, torch.int32, torch.bool, torch.float64):
        assert repeats(torch.ones(4, 2, dtype=dtype))
        assert not repeats(torch.eye(2, dtype=torch.float32).to(dtype))
    assert repeats(np.ones((1, 3))) and repeats(np.ones((4, 3))[:, ::2])
