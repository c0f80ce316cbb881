"""Two versions of a model through the command line: what lies between their answers, and their speeds."""

from __future__ import annotations

from pathlib import Path
from subprocess import CompletedProcess

import pytest

from optimizer.recipe import digest, load_recipe
from optimizer.result import EvaluationStatus, Result, RunStatus, Verdict
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


TWO_LINEARS = MODEL.replace("self.linear(x)", "self.linear(x) + self.second(x)").replace(
    "    def forward", "        self.second = torch.nn.Linear(64, 64)\n\n    def forward"
)
RECIPE = """
apiVersion: fuseworks.io/v1
kind: Recipe
metadata: {name: merged, version: 1.0.0}
applies_to: {target: {kind: cpu}, graph: {all: [{pass: merge_parallel_linears}]}}
steps:
  - {runtime: {threads: 1}}
  - {pass: merge_parallel_linears}
  - {backend: eager}
"""


def compared(folder: Path, scale: float) -> Result:
    (folder / "before.py").write_text(MODEL.replace("SCALE", "1.0"))
    (folder / "after.py").write_text(MODEL.replace("SCALE", str(scale)))
    return Result.model_validate(answer(command(folder)))


def packaged(folder: Path, after: str, code: int = 0) -> Result:
    (folder / "before.py").write_text(TWO_LINEARS.replace("SCALE", "1.0"))
    (folder / "after.py").write_text(after.replace("SCALE", "2.0"))
    (folder / "recipe.yaml").write_text(RECIPE)
    return Result.model_validate(answer(command(folder, "--recipe", folder / "recipe.yaml"), code=code))


def command(folder: Path, *more: object) -> CompletedProcess[str]:
    files = folder / "before.py", folder / "after.py"
    return fuseworks("compare", *files, "--json", "--out", folder / "out", "--budget", "60s", *more)


def test_a_percent_is_seen_in_the_answers_and_refuses_nothing(tmp_path: Path) -> None:
    result = compared(tmp_path, 1.01)
    assert result.status == RunStatus.SUCCEEDED and result.verdict in set(Verdict)
    values, choice = result.numerics
    assert not values.passed and 0.009 < values.error < 0.02, "relu's mean is not 0: a percent of size, more of spread"
    assert choice.passed and choice.error == 0.0
    assert "Their answers differ: out0 differs by" in result.summary
    assert result.compared_as == "uploaded" and result.recipe is None
    assert set(result.conditions.observed["disturbed_shares"]) == {"baseline", "other", "baseline_again"}  # type: ignore[union-attr]


def test_a_model_is_like_itself(tmp_path: Path) -> None:
    result = compared(tmp_path, 1.0)
    assert [row.error for row in result.numerics] == [0.0, 0.0]
    assert "Their answers are alike" in result.summary


def test_both_are_packaged_by_the_recipes_steps_and_each_is_right_by_its_own_reference(tmp_path: Path) -> None:
    result = packaged(tmp_path, TWO_LINEARS)
    assert result.status == RunStatus.SUCCEEDED and result.verdict in set(Verdict)
    assert (result.compared_as, result.recipe_digest) == ("packaged", digest(load_recipe(RECIPE)))
    for evaluation in result.candidates:
        assert evaluation.status == EvaluationStatus.PASSED
        assert evaluation.verification is not None and evaluation.verification.passed
        assert evaluation.candidate.steps == load_recipe(RECIPE).steps
        assert evaluation.performance is not None and evaluation.performance.inference_precision == "float32"
    assert [e.candidate.name for e in result.candidates] == ["baseline", "other"]
    assert not result.numerics[0].passed, "twice the answer is another model, and no mistake of the package's"
    assert result.conditions.fixed["threads"] == 1  # type: ignore[union-attr]
    assert "both as packaged by merged" in result.summary


def test_a_new_model_that_the_steps_do_not_fit_ends_with_4_and_is_not_measured(tmp_path: Path) -> None:
    result = packaged(tmp_path, MODEL, code=4)
    assert result.problem is not None and result.problem.id == "compare:user:after-not-packaged"
    assert "after.py cannot be packaged" in result.problem.message
    assert "merge_parallel_linears found no match and needs 1" in result.problem.message
    assert result.comparisons == []
