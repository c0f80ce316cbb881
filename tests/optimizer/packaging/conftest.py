"""One tiny ONNX model, packaged: y = dense @ W + table[id], with a symbolic batch of 1 to 8."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from optimizer.packaging.package import Sample, write_package
from optimizer.packaging.run_template import read_manifest
from optimizer.spec import BackendStep, Workload

WEIGHT = np.arange(6, dtype=np.float32).reshape(3, 2)
TABLE = np.arange(10, dtype=np.float32).reshape(5, 2) * 100
WORKLOAD = Workload.model_validate(
    {
        "inputs": [
            {"name": "dense", "dtype": "float32", "shape": ["batch", 3]},
            {"name": "id", "dtype": "int64", "shape": ["batch"], "values": {"below": 5}},
        ],
        "dims": {"batch": {"serve": [4], "min": 1, "max": 8}},
    }
)
SETTINGS = {"OMP_NUM_THREADS": "1", "MALLOC_TRIM_THRESHOLD_": "1073741824"}


def reference(dense: np.ndarray, id_: np.ndarray) -> np.ndarray:
    return dense @ WEIGHT + TABLE[id_]


def inputs(batch: int = 4) -> dict[str, np.ndarray]:
    return {
        "dense": np.arange(batch * 3, dtype=np.float32).reshape(batch, 3),
        "id": np.arange(batch, dtype=np.int64) % 5,
    }


def save_model(path: Path) -> None:
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["dense", "W"], ["linear"]),
            helper.make_node("Gather", ["table", "id"], ["row"]),
            helper.make_node("Add", ["linear", "row"], ["y"]),
        ],
        "tiny",
        [
            helper.make_tensor_value_info("dense", TensorProto.FLOAT, ["batch", 3]),
            helper.make_tensor_value_info("id", TensorProto.INT64, ["batch"]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 2])],
        [numpy_helper.from_array(WEIGHT, "W"), numpy_helper.from_array(TABLE, "table")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, path)


def write(out: Path, **changes: Any) -> Path:
    """The package's folder."""
    artifact = out / "artifact"
    artifact.mkdir(parents=True, exist_ok=True)
    save_model(artifact / "model.onnx")
    import onnxruntime

    arguments: dict[str, Any] = {
        "name": "tiny",
        "backend": "onnxruntime",
        "options": {},
        "steps": [BackendStep(backend="onnxruntime")],
        "artifact_folder": artifact,
        "workload": WORKLOAD,
        "outputs": [{"name": "y", "dtype": "float32", "shape": ["batch", 2]}],
        "libraries": {"onnxruntime": onnxruntime.__version__, "numpy": np.__version__},
        "environment": SETTINGS,
        "threads": 1,
        "sample": Sample(list(inputs().values()), [reference(*inputs().values())], [1e-5]),
    }
    write_package(out, **{**arguments, **changes})
    return out / "package"


@pytest.fixture(scope="session")
def packaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed: copy it first."""
    return write(tmp_path_factory.mktemp("packaged"))


@pytest.fixture
def package(packaged: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(packaged, tmp_path / "package"))


def edit_manifest(package: Path, change: Any) -> None:
    """Changes the manifest as the packager would have written it: with a digest that matches."""
    import hashlib

    manifest = read_manifest(package)
    del manifest["digest"]
    change(manifest)
    canonical = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    manifest["digest"] = hashlib.sha256(canonical.encode()).hexdigest()
    (package / "manifest.json").write_text(json.dumps(manifest))


def run(
    package: Path, *arguments: str, python: str = sys.executable, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    base = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    return subprocess.run(
        [python, str(package / "run.py"), *arguments],
        capture_output=True,
        text=True,
        env={**base, **(environment or {})},
        timeout=120,
        cwd=package.parent,
    )


def predict(package: Path, arrays: dict[str, np.ndarray], flags: Sequence[str] = ()) -> tuple[int, str, Any]:
    """Exit code, stderr and `y` of run.py --inputs."""
    source, target = package.parent / "x.npz", package.parent / "y.npz"
    np.savez(source, **arrays)
    done = run(package, "--inputs", str(source), "--outputs", str(target), *flags)
    return done.returncode, done.stderr, np.load(target)["y"] if target.exists() else None
