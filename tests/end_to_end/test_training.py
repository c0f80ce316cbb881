"""A training step through the command line: gradients verified, a recipe and a package that train as measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from optimizer.recipe import load_recipe
from optimizer.result import EvaluationStatus, Result, RunStatus, Verdict
from optimizer.spec import Mode
from tests.end_to_end.support import answer, fuseworks

pytestmark = pytest.mark.slow

# a table of 51 MB, of which a step looks 256 rows up
MODEL = """
import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 200_000


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(ROWS, 64)
        self.hidden = nn.Linear(256, 64)
        self.head = nn.Linear(64, 1)

    def forward(self, ids):
        return self.head(torch.relu(self.hidden(self.table(ids).flatten(1)))).squeeze(1)


def loss(logits, click):
    return F.binary_cross_entropy_with_logits(logits, click)


def get_inputs():
    return [torch.randint(0, ROWS, (64, 4))]


def get_targets():
    return [(torch.rand(64) < 0.3).float()]


def get_workloads():
    return {
        "mode": "training",
        "loss": "loss",
        "optimizer": {"name": "adagrad", "lr": 0.01},
        "inputs": [
            {"name": "ids", "dtype": "int64", "shape": [64, 4], "values": {"below": ROWS}},
            {"name": "click", "dtype": "float32", "shape": [64], "values": {"bernoulli": 0.3}},
        ],
    }
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    folder = tmp_path_factory.mktemp("training")
    (folder / "train.py").write_text(MODEL)
    out = folder / "out"
    done = fuseworks(
        "optimize", folder / "train.py", "--json", "--out", out, "--budget", "6m", "--max-pairs", "6", timeout_s=900
    )
    return Result.model_validate(answer(done)), out


def test_a_step_is_faster_by_far_where_only_the_looked_up_rows_are_updated(run: tuple[Result, Path]) -> None:
    result, _ = run
    assert result.status == RunStatus.SUCCEEDED and result.summary.startswith("Of a training step: ")
    assert result.workload is not None and result.workload.mode is Mode.TRAINING
    assert result.verdict == Verdict.FASTER and result.speedup is not None and result.speedup > 3
    assert [row.output.partition(" of ")[0] for row in result.numerics] == [
        "loss", "gradient", "update", "optimizer state",
    ]  # fmt: skip
    peers = {e.candidate.name: e.status for e in result.candidates if e.candidate.name.startswith("inductor_step")}
    assert peers["inductor_step"] == EvaluationStatus.PASSED


def test_the_recipe_says_that_it_is_for_training(run: tuple[Result, Path]) -> None:
    _, out = run
    recipe = load_recipe(out / "recipe.yaml")
    assert recipe.applies_to.mode is Mode.TRAINING
    assert "update_embedding_rows" in [condition.pass_ for condition in recipe.applies_to.graph.all]


def test_the_package_trains_in_a_process_of_its_own(run: tuple[Result, Path]) -> None:
    _, out = run
    done = subprocess.run(
        [sys.executable, "train_step.py", "--self-test", "--eager"],
        cwd=out / "package",
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


def test_the_recipe_is_replayed_on_another_step_and_refused_for_inference(
    run: tuple[Result, Path], tmp_path: Path
) -> None:
    _, out = run
    other = tmp_path / "other.py"
    other.write_text(MODEL.replace("200_000", "150_000").replace("adagrad", "sgd"))
    done = fuseworks("apply", out / "recipe.yaml", other, "--json", "--out", tmp_path / "other", timeout_s=900)
    assert Result.model_validate(answer(done)).verdict == Verdict.FASTER
    serving = tmp_path / "serving.py"
    serving.write_text(MODEL.partition("def get_workloads")[0])
    refused = fuseworks("apply", out / "recipe.yaml", serving, "--json", "--out", tmp_path / "serving")
    assert "it is made for training, and this workload is inference" in answer(refused, code=4)["problem"]["message"]
