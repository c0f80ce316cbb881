"""The package of a training step, tried as a user would: in a process of its own, without anything of ours."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from optimizer.inputs import draw
from optimizer.packaging.training import Checked, write_training_package
from optimizer.spec import BackendStep, PassStep
from tests.optimizer.compiling.step.steps import captured, contender, rewritten


@pytest.fixture
def package(tmp_path: Path) -> Path:
    answer = captured(tmp_path, "adagrad")
    step, rng = rewritten(answer.files["captured.step"]), np.random.default_rng(0)
    batches = [draw(answer.workload, {}, rng) for _ in range(3)]
    one = contender(step, answer.workload)
    losses = [float(one.call(one.stage(batch))) for batch in batches]
    folder, archive = write_training_package(
        tmp_path / "out",
        name="ranker",
        step=step,
        workload=answer.workload,
        steps=[PassStep(pass_="update_embedding_rows"), BackendStep(backend="eager_step")],
        compiled=False,
        compiled_optimizer=False,
        torch=torch.__version__,
        environment={"MALLOC_TOP_PAD_": "67108864"},
        threads=1,
        model_sha256="0" * 64,
        recipe_digest=None,
        speedup="",
        checked=Checked(batches, losses, 1e-4),
    )
    assert archive.stat().st_size > 0
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(folder / "train_step.py"), "--self-test", *arguments],
        cwd=folder, capture_output=True, text=True, timeout=120, env={"PATH": "/usr/bin:/bin"},
    )  # fmt: skip


def test_it_trains_as_it_was_measured_without_anything_of_ours(package: Path) -> None:
    done = run(package)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("3 steps as measured, the last with loss ")
    imported = [line for path in package.glob("*.py") for line in path.read_text().splitlines() if "import " in line]
    assert not [line for line in imported if "fuseworks" in line or "from optimizer" in line]


def test_another_loss_than_was_measured_is_told_with_its_step(package: Path) -> None:
    with np.load(package / "check.npz") as saved:
        arrays = dict(saved)
    arrays["losses"][1] *= 1.01
    np.savez(package / "check.npz", **arrays)
    done = run(package, "--eager")
    assert done.returncode == 1 and done.stderr.startswith("step 2: loss ")


def test_another_torch_is_refused(package: Path) -> None:
    manifest = json.loads((package / "manifest.json").read_text())
    manifest["toolchain"]["torch"] = "1.0.0"
    (package / "manifest.json").write_text(json.dumps(manifest))
    done = run(package)
    assert done.returncode == 3 and "measured with torch 1.0.0" in done.stderr


def test_the_manifest_says_what_a_batch_is_and_what_was_done(package: Path) -> None:
    told = json.loads((package / "manifest.json").read_text())
    assert told["kind"] == "fuseworks.training_package"
    assert told["inputs"][-1] == {"name": "click", "dtype": "float32", "shape": [8]}
    assert told["optimizer"] == {"name": "adagrad", "lr": 0.1} and told["loss"] == "loss"
    assert told["steps"] == [{"pass": "update_embedding_rows"}, {"backend": "eager_step"}]
    assert "export MALLOC_TOP_PAD_=67108864" in (package / "README.md").read_text()
