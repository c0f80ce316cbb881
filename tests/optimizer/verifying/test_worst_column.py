"""A planted candidate that answers a constant in one quiet column beside a loud one."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from optimizer.spec import Workload
from tests.optimizer.verifying.local import LocalChild, TorchContender
from tests.optimizer.verifying.test_verify import export, prepared


class TwoTasks(torch.nn.Module):
    """One output of two columns: watch time of spread 1000, and a click probability of 0.5 +- 0.004."""

    def forward(self, dense: torch.Tensor) -> torch.Tensor:
        return torch.stack([1000.0 * dense.sum(-1), torch.sigmoid(0.01 * dense.mean(-1) * 3)], -1)


def constant_click(dense: torch.Tensor) -> torch.Tensor:
    answer = TwoTasks()(dense)
    answer[:, 1] = 0.5
    return answer


def test_a_quiet_column_beside_a_loud_one_is_judged_by_its_own_spread(tmp_path: Any) -> None:
    workload = Workload.model_validate({"inputs": [{"name": "dense", "dtype": "float32", "shape": [64, 3]}]})
    verifier = prepared(export(TwoTasks(), workload, tmp_path / "two.pt2"), TwoTasks(), workload)
    right = verifier.verify(LocalChild(TorchContender(TwoTasks())))
    assert right.passed, right.reason
    assert right.outputs[0].worst_column is not None
    wrong = verifier.verify(LocalChild(TorchContender(constant_click)))
    assert not wrong.passed
    (row,) = wrong.outputs
    assert row.error < 1e-5, "over both columns together it is nothing"
    assert row.worst_column is not None and row.worst_column.column == 1
    assert row.worst_column.error == pytest.approx(1.0, rel=0.05)
    assert "column 1 alone" in str(wrong.reason)
    agreement = verifier.agreement("float32")
    inputs = torch.from_numpy(verifier.truths.pooled[0].arrays[0])
    base = [TwoTasks()(inputs).numpy()]
    assert agreement(base, base) is None
    assert "column 1 alone" in str(agreement([constant_click(inputs).numpy()], base))
