"""What the packager writes: the folder, the zip, the manifest."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from optimizer.errors import FuseworksError
from optimizer.packaging import package
from tests.optimizer.packaging.conftest import inputs, predict, run, save_model, write


def test_the_manifest_names_every_file_with_its_digest(packaged: Path):
    manifest = json.loads((packaged / "manifest.json").read_text())
    on_disk = {p.name for p in packaged.iterdir()} - {"manifest.json"}
    assert set(manifest["files"]) == on_disk
    assert {"model.onnx", "run.py", "requirements.txt", "README.md", "check.npz"} <= on_disk
    for name, entry in manifest["files"].items():
        raw = (packaged / name).read_bytes()
        assert entry == {"sha256": hashlib.sha256(raw).hexdigest(), "size_bytes": len(raw)}


def test_the_contract_holds_ranges_of_dims_and_ids(packaged: Path):
    manifest = json.loads((packaged / "manifest.json").read_text())
    assert manifest["inputs"][1] == {
        "name": "id",
        "dtype": "int64",
        "shape": ["batch"],
        "integers": {"from": 0, "below": 5},
    }
    assert manifest["dims"]["batch"] == {"serve": [4], "min": 1, "max": 8}
    readme = (packaged / "README.md").read_text()
    assert "| `id` | int64 | [batch] | 0 to below 5 |" in readme


def test_the_manifest_names_the_device_that_it_was_measured_for(tmp_path: Path):
    model = tmp_path / "artifact" / "model.pt2"
    model.parent.mkdir()
    with zipfile.ZipFile(model, "w") as archive:
        archive.writestr("models/model.json", "{}")
    options = {"backend": "inductor", "libraries": {"torch": "2.11.0", "numpy": "2.2.1"}, "precision": "float32"}
    loading = {"entry": "model.pt2", "load": {"options": {"triton.cudagraphs": True}}}
    written = write(tmp_path, **options, target="cuda:sm_90", details=loading)
    manifest = json.loads((written / "manifest.json").read_text())
    assert manifest["device"] == {"kind": "cuda", "arch": "sm_90", "system": None, "machine": None, "isa": []}
    assert manifest["load"]["options"] == {"triton.cudagraphs": True}


def test_a_package_that_was_not_written_for_a_gpu_yet_is_refused_and_not_guessed(tmp_path: Path):
    details = {"load": {"providers": ["CUDAExecutionProvider"]}}
    with pytest.raises(FuseworksError, match="a package for its CUDA provider is not written yet"):
        write(tmp_path, target="cuda:sm_90", details=details)


def test_requirements_pin_exactly_what_was_measured(tmp_path: Path):
    written = write(tmp_path, libraries={"onnxruntime": "1.32.0+local", "numpy": "2.2.1", "torch": "2.13.0"})
    assert (written / "requirements.txt").read_text() == "numpy==2.2.1\nonnxruntime==1.32.0\n"


def test_the_zip_is_the_same_byte_for_byte_and_runs_unpacked(tmp_path: Path):
    archives = [write(tmp_path / name).with_suffix(".zip").read_bytes() for name in ("a", "b")]
    assert archives[0] == archives[1]
    with zipfile.ZipFile(tmp_path / "a" / "package.zip") as archive:
        archive.extractall(tmp_path / "elsewhere")
    assert predict(tmp_path / "elsewhere" / "package", inputs())[0] == 0


def test_writing_again_replaces_the_package_and_leaves_nothing_behind(tmp_path: Path):
    write(tmp_path)
    (tmp_path / "package" / "stray").write_text("x")
    write(tmp_path)
    assert not (tmp_path / "package" / "stray").exists()
    assert {p.name for p in tmp_path.iterdir()} == {"artifact", "package", "package.zip"}


def test_a_backend_without_its_artifact_is_our_error_and_leaves_nothing(tmp_path: Path):
    with pytest.raises(FuseworksError) as caught:
        write(tmp_path, backend="openvino", libraries={"openvino": "1", "numpy": "2"})
    assert caught.value.id == "packaging:ours:no-artifact"
    assert {p.name for p in tmp_path.iterdir()} == {"artifact"}


def test_without_an_artifact_the_model_itself_is_packaged(tmp_path: Path):
    save_model(tmp_path / "rewritten.onnx")
    written = write(tmp_path, artifact_folder=None, model=tmp_path / "rewritten.onnx")
    assert (written / "model.onnx").exists()
    assert predict(written, inputs())[0] == 0


def test_neither_artifact_nor_model_is_our_error(tmp_path: Path):
    with pytest.raises(FuseworksError) as caught:
        write(tmp_path, artifact_folder=None)
    assert caught.value.id == "packaging:ours:no-artifact"


def test_a_graph_that_needs_our_own_operations_is_not_packaged(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "model.pt2", "w") as archive:
        archive.writestr("model/models/model.json", '{"target": "torch.ops.fuseworks.add_rms_norm.default"}')
    libraries = {"torch": "2.13.0+cpu", "numpy": "2.2.1"}
    with pytest.raises(FuseworksError) as caught:
        write(tmp_path, backend="eager", artifact_folder=None, model=tmp_path / "model.pt2", libraries=libraries)
    assert caught.value.id == "packaging:ours:not-lowered"


def test_compiled_code_asks_for_the_features_that_march_native_may_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("optimizer.machine.cpu_isa", lambda: ["avx2", "fma", "fpu", "amx_tile", "avx512_bf16"])
    assert package._isa("aot_inductor", "float32", {"isa": ["avx512f"]}) == ["avx2", "avx512_bf16", "avx512f", "fma"]
    assert package._isa("onnxruntime", "float32", {}) == []
    assert package._isa("openvino", "bfloat16", {}) == ["avx512_bf16"]


def test_run_py_imports_nothing_of_fuseworks(packaged: Path):
    source = (packaged / "run.py").read_text()
    assert "import optimizer" not in source
    assert "from optimizer" not in source


@pytest.fixture(scope="module")
def fresh_python(packaged: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A virtual environment with requirements.txt in it and nothing else."""
    venv = tmp_path_factory.mktemp("venv")
    ours = importlib.util.find_spec("pip") is not None  # then the new environment needs none of its own
    flags = ["--without-pip"] if ours else []
    subprocess.run([sys.executable, "-m", "venv", *flags, str(venv)], check=True, capture_output=True)
    python = str(venv / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python] if ours else [python, "-m", "pip"]
    install = [*pip, "install", "--quiet", "--retries", "1", "-r", str(packaged / "requirements.txt")]
    done = subprocess.run(install, capture_output=True, text=True, timeout=300)
    if done.returncode and "Retrying" in done.stderr:
        pytest.skip(f"no package index can be reached to install the package's requirements: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stderr
    return python


def test_it_runs_in_a_fresh_virtual_environment(packaged: Path, fresh_python: str):
    listed = subprocess.run([fresh_python, "-c", "import torch"], capture_output=True)
    assert listed.returncode != 0, "the environment is not fresh"
    done = run(packaged, "--self-test", "--calls", "20", python=fresh_python)
    assert done.returncode == 0, done.stderr
    assert "verified sample reproduced" in done.stdout
