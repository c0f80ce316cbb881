"""The rewriting child reads the promise of the workload, and says on which inputs a program relies."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from optimizer.optimizing.child import rewrite_pt2
from optimizer.spec import Workload
from tests.optimizer.optimizing.passes.test_deduplicate_rows import Towers, dims, pair
from tests.optimizer.optimizing.support import export, reasons

DEDUPLICATE = [{"pass": "deduplicate_rows"}]


def workload(*promised: str) -> Workload:
    return Workload.model_validate(
        {
            # names are the workload's own: the graph's may differ
            "inputs": [
                {"name": "viewer", "dtype": "float32", "shape": ["batch", 6]},
                {"name": "film", "dtype": "float32", "shape": ["batch", 5]},
            ],
            "dims": {"batch": {"serve": [3], "min": 1, "max": 64}},
            "contracts": [{"same_over_batch": [name]} for name in promised],
        }
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("towers") / "model.pt2"
    torch.export.save(export(Towers(), *pair(3), dims=dims()), path)
    return path


def test_a_promise_of_the_workload_is_found_by_the_inputs_place(model: Path, tmp_path: Path) -> None:
    (rewrite,), promised = rewrite_pt2(model, DEDUPLICATE, tmp_path / "out.pt2", workload("viewer"))
    assert promised == ["viewer"] and rewrite.applied
    user, item = pair(7)
    with torch.no_grad():
        got = torch.export.load(tmp_path / "out.pt2").module()(user, item)
        torch.testing.assert_close(got, Towers()(user, item), rtol=1e-5, atol=1e-6)


def test_a_program_without_the_pass_relies_on_nothing(model: Path, tmp_path: Path) -> None:
    steps = [{"pass": "merge_parallel_linears"}]
    assert rewrite_pt2(model, steps, tmp_path / "out.pt2", workload("viewer"))[1] == []


@pytest.mark.parametrize("given", [None, workload()])
def test_without_a_contract_it_is_refused_and_nothing_is_written(
    model: Path, tmp_path: Path, given: Workload | None
) -> None:
    (rewrite,), promised = rewrite_pt2(model, DEDUPLICATE, tmp_path / "out.pt2", given)
    assert promised == [] and not rewrite.applied and not (tmp_path / "out.pt2").exists()
    assert reasons(rewrite.refused)[0].startswith("the workload holds no contract")


def test_both_inputs_may_be_promised(model: Path, tmp_path: Path) -> None:
    (rewrite,), promised = rewrite_pt2(model, DEDUPLICATE, tmp_path / "out.pt2", workload("film", "viewer"))
    assert promised == ["viewer", "film"]
    assert rewrite.applied[0].reason.startswith("9 operations once a batch")
