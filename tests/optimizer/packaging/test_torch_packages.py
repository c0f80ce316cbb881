"""Packages of the torch backends in a fresh process: eager from the exported graph, AOTInductor compiled ahead."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from optimizer.packaging.package import Sample, write_package
from optimizer.spec import BackendStep, Workload

WORKLOAD = Workload.model_validate(
    {
        "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 6]}],
        "dims": {"batch": {"serve": [4], "min": 1, "max": 8}},
    }
)


class Tiny(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))


@pytest.fixture(scope="module")
def model() -> Tiny:
    torch.manual_seed(3)
    return Tiny().eval()


def exported(model: Tiny) -> torch.export.ExportedProgram:
    batch = torch.export.Dim("batch", min=1, max=8)
    return torch.export.export(model, (torch.zeros(4, 6),), dynamic_shapes=({0: batch},))


def write(out: Path, backend: str, artifact: Path, model: Tiny, details: dict[str, Any]) -> Path:
    x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)
    y = model(torch.from_numpy(x)).detach().numpy()
    write_package(
        out,
        name="tiny",
        backend=backend,
        options={},
        steps=[BackendStep(backend=backend)],
        artifact_folder=artifact,
        workload=WORKLOAD,
        outputs=[{"name": "y", "dtype": "float32", "shape": ["batch", 2]}],
        libraries={"torch": torch.__version__, "numpy": np.__version__},
        environment={"OMP_NUM_THREADS": "1"},
        threads=1,
        details=details,
        sample=Sample([x], [y], [1e-5]),
    )
    return out / "package"


@pytest.fixture
def fresh_python(tmp_path: Path) -> str:
    """A new virtual environment that sees this one's libraries: installing torch again would take minutes."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True, capture_output=True)
    (site,) = venv.glob("lib/python*/site-packages")
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return str(venv / "bin" / "python")


DRIVER = """
import json, sys, numpy as np, run
model = run.Model()
answer = run.self_test(model, 5)
np.save("y.npy", model.predict({"x": np.load("x.npy")})["y"])
try:
    model.predict({"x": np.zeros((9, 6), np.float32)})
except run.InputRefused as refused:
    answer["refused"] = str(refused)
print(json.dumps(answer))
"""


def check(package: Path, python: str, model: Tiny) -> None:
    """One process does it all: each import of torch costs seconds."""
    x = np.linspace(-3, 3, 42, dtype=np.float32).reshape(7, 6)
    np.save(package / "x.npy", x)
    environment = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [python, "-c", DRIVER], cwd=package, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["check"].startswith("verified sample reproduced")
    assert answer["refused"] == "x: batch (dimension 0) must lie in [1, 8], not 9"
    np.testing.assert_allclose(
        np.load(package / "y.npy"), model(torch.from_numpy(x)).detach().numpy(), rtol=1e-5, atol=1e-6
    )


def test_an_eager_package_runs_in_a_fresh_virtual_environment(tmp_path: Path, model: Tiny, fresh_python: str):
    artifact = tmp_path / "artifact"
    artifact.mkdir()
    torch.export.save(exported(model), artifact / "model.pt2")
    check(write(tmp_path, "eager", artifact, model, {"entry": "model.pt2"}), fresh_python, model)


@pytest.mark.slow
def test_an_aot_inductor_package_runs_in_a_fresh_virtual_environment(tmp_path: Path, model: Tiny, fresh_python: str):
    if shutil.which("g++") is None:
        pytest.skip("AOTInductor needs a C++ compiler to build what is packaged")
    artifact = tmp_path / "artifact"
    artifact.mkdir()
    with torch.no_grad():
        torch._inductor.aoti_compile_and_package(
            exported(model), package_path=str(artifact / "model.pt2"), inductor_configs={"freezing": True}
        )
    package = write(tmp_path, "aot_inductor", artifact, model, {"entry": "model.pt2"})
    manifest = json.loads((package / "manifest.json").read_text())
    assert manifest["device"]["system"] == "Linux"
    assert manifest["device"]["isa"], "compiled code must say which processor it needs"
    check(package, fresh_python, model)
