"""Two versions of a model through the command line: what lies between their answers, and their speeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer.result import Result, RunStatus, Verdict
from tests.end_to_end.support import answer, fuseworks

pytestmark = pytest.mark.slow

MODEL = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(64, 64)

    def forward(self, x):
        y = torch.relu(self.linear(x)) * SCALE
        return y, y.argmax(-1)

def get_init_inputs():
    return []

def get_inputs():
    return [torch.randn(128, 64)]
"""


def compared(folder: Path, scale: float) -> Result:
    (folder / "before.py").write_text(MODEL.replace("SCALE", "1.0"))
    (folder / "after.py").write_text(MODEL.replace("SCALE", str(scale)))
    done = fuseworks(
        "compare", folder / "before.py", folder / "after.py", "--json", "--out", folder / "out", "--budget", "60s"
    )
    return Result.model_validate(answer(done))


def test_a_percent_is_seen_in_the_answers_and_refuses_nothing(tmp_path: Path) -> None:
    result = compared(tmp_path, 1.01)
    assert result.status == RunStatus.SUCCEEDED and result.verdict in set(Verdict)
    values, choice = result.numerics
    assert not values.passed and 0.009 < values.error < 0.02, "relu's mean is not 0: a percent of size, more of spread"
    assert choice.passed and choice.error == 0.0
    assert "Their answers differ: out0 differs by" in result.summary
    assert set(result.conditions.observed["disturbed_shares"]) == {"baseline", "other", "baseline_again"}  # type: ignore[union-attr]


def test_a_model_is_like_itself(tmp_path: Path) -> None:
    result = compared(tmp_path, 1.0)
    assert [row.error for row in result.numerics] == [0.0, 0.0]
    assert "Their answers are alike" in result.summary
