"""What a package does when it is run: it answers within its contract and refuses everything else."""

from __future__ import annotations

import importlib.util
import json
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimizer import denormals
from tests.optimizer.packaging.conftest import SETTINGS, edit_manifest, inputs, predict, reference, run, write


def test_it_answers_as_the_reference_does(package: Path):
    code, _, y = predict(package, inputs(7))
    assert code == 0
    np.testing.assert_allclose(y, reference(*inputs(7).values()))


@pytest.mark.parametrize("batch", [1, 8])
def test_the_ends_of_the_range_are_answered(package: Path, batch: int):
    code, error, y = predict(package, inputs(batch))
    assert (code, error, y.shape) == (0, "", (batch, 2))


def changed(**arrays: np.ndarray) -> dict[str, np.ndarray]:
    return {**inputs(), **arrays}


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        (inputs(9), "batch (dimension 0) must lie in [1, 8], not 9"),
        (inputs(0), "must lie in [1, 8], not 0"),
        (changed(dense=np.ones((4, 3))), "dense: dtype float32 is needed, not float64"),
        (changed(id=np.ones(4, np.int32)), "id: dtype int64 is needed, not int32"),
        (changed(dense=np.ones((4, 3, 1), np.float32)), "dense: 2 dimensions"),
        (changed(dense=np.ones((4, 5), np.float32)), "dense: dimension 1 must be 3, not 5"),
        (changed(id=np.ones(5, np.int64)), "id: batch is 5 here and 4 in dense"),
        (changed(id=np.array([0, 1, 5, 2])), "id: 5 at [2] is outside [0, 5)"),
        (changed(id=np.array([0, 1, 2, -1])), "id: -1 at [3] is outside [0, 5)"),
        ({"dense": inputs()["dense"]}, "the inputs must be ['dense', 'id']"),
        (changed(more=np.ones(1)), "the inputs must be ['dense', 'id']"),
    ],
)
def test_inputs_outside_the_contract_are_refused_with_code_4(package: Path, arrays: dict[str, Any], words: str):
    code, error, y = predict(package, arrays)
    assert code == 4
    assert words in error
    assert y is None


def test_pickled_inputs_are_never_loaded(package: Path, tmp_path: Path):
    np.savez(tmp_path / "x.npz", dense=np.array([{"a": 1}], dtype=object), id=np.ones(1))
    done = run(package, "--inputs", str(tmp_path / "x.npz"), "--outputs", str(tmp_path / "y.npz"))
    assert done.returncode == 4
    assert "no readable .npz" in done.stderr


def test_bounds_by_column_are_checked_by_column(package: Path):
    def per_column(manifest: dict[str, Any]) -> None:
        manifest["inputs"] = [
            {"name": "id", "dtype": "int64", "shape": ["batch", 2], "integers": {"from": 0, "below": [3, 9]}}
        ]

    edit_manifest(package, per_column)
    code, error, _ = predict(package, {"id": np.array([[2, 8], [3, 0]])})
    assert code == 4
    assert "id: 3 at [1, 0] is outside [0, 3)" in error


@pytest.mark.parametrize("name", ["model.onnx", "README.md", "check.npz"])
def test_a_changed_file_is_refused_with_code_3(package: Path, name: str):
    path = package / name
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    code, error, _ = predict(package, inputs())
    assert code == 3
    assert f"{name} was changed after it was packaged" in error


def test_a_missing_file_is_refused(package: Path):
    (package / "model.onnx").unlink()
    code, error, _ = predict(package, inputs())
    assert (code, "model.onnx is missing" in error) == (3, True)


def test_a_widened_contract_is_refused(package: Path):
    path = package / "manifest.json"
    path.write_text(path.read_text().replace('"max": 8', '"max": 800'))
    code, error, _ = predict(package, inputs(9))
    assert code == 3
    assert "manifest.json was changed" in error


def set_at(*path: str, value: Any) -> Any:
    def change(manifest: dict[str, Any]) -> None:
        for key in path[:-1]:
            manifest = manifest[key]
        manifest[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (set_at("toolchain", "onnxruntime", value="1.0.0"), "onnxruntime 1.0.0 is needed and"),
        (set_at("toolchain", "no-such-library", value="2.0"), "no-such-library 2.0 is needed; install"),
        (set_at("device", "isa", value=["avx2000"]), "this CPU lacks avx2000"),
        (set_at("device", "machine", value="s390x"), "built for machine s390x"),
        (set_at("device", "system", value="Plan9"), "built for system Plan9"),
        (set_at("outputs", value=[]), "1 outputs where 0 were packaged"),
        (set_at("outputs", value=[{"name": "y", "shape": ["batch", 3]}]), "where ['batch', 3] was packaged"),
    ],
)
def test_a_wrong_toolchain_device_or_answer_is_refused_with_code_3(package: Path, change: Any, words: str):
    edit_manifest(package, change)
    code, error, y = predict(package, inputs())
    assert code == 3
    assert words in error
    assert y is None


def test_the_self_test_reproduces_the_verified_sample_and_times_calls(package: Path):
    done = run(package, "--self-test", "--calls", "10")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["check"].startswith("verified sample reproduced")
    assert 0 < answer["median_ms"] <= answer["p90_ms"]
    assert "checks of inputs and outputs" in answer["timed"]
    assert answer["settings_in_force"] is True


def test_the_self_test_refuses_a_machine_that_computes_something_else(package: Path):
    edit_manifest(package, set_at("check", "allowed_errors", value=[-1.0]))
    done = run(package, "--self-test", "--calls", "10")
    assert done.returncode == 3
    assert "does not compute what was verified" in done.stderr


PROBE = """
import os, run
real = run.Model.predict
def probe(self, inputs):
    environ = dict(e.split("=", 1) for e in open("/proc/self/environ").read().split("\\0") if e)
    print("SEEN", {k: environ.get(k) for k in %r}, "left" if run.RESTARTED in os.environ else "gone")
    return real(self, inputs)
run.Model.predict = probe
import sys
sys.exit(run.main(["--inputs", "x.npz", "--outputs", "y.npz"]))
"""


def probe_settings(package: Path, environment: dict[str, str], strip: bool = False) -> tuple[str, str]:
    import subprocess

    np.savez(package / "x.npz", **inputs())
    code = PROBE % sorted(SETTINGS)
    if strip:  # something that unsets the variable at every start, as a wrapper script may
        code = "import os\nos.environ.pop('MALLOC_TRIM_THRESHOLD_', None)\n" + code
    (package / "probe.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "probe.py"], cwd=package, capture_output=True, text=True, env=environment, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_it_restarts_itself_so_that_the_settings_hold_from_the_start_of_the_process(package: Path):
    # /proc/self/environ is the environment that the process was started with: setting os.environ would not show
    out, error = probe_settings(package, {"PATH": "/usr/bin"})
    assert str(dict(sorted(SETTINGS.items()))) in out
    assert out.count("SEEN") == 1
    assert "gone" in out
    assert "warning" not in error


def test_it_restarts_once_only_when_a_setting_does_not_stay(package: Path):
    out, error = probe_settings(package, {"PATH": "/usr/bin"}, strip=True)
    assert out.count("SEEN") == 1
    assert "warning: these settings do not stay set: MALLOC_TRIM_THRESHOLD_" in error


def load_module(package: Path) -> Any:
    spec = importlib.util.spec_from_file_location("packaged_run", package / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_as_a_module_it_warns_when_the_settings_are_not_in_force(package: Path, monkeypatch: pytest.MonkeyPatch):
    for key in SETTINGS:
        monkeypatch.delenv(key, raising=False)
    with pytest.warns(RuntimeWarning, match="MALLOC_TRIM_THRESHOLD_"):
        load_module(package).Model()


def test_as_a_module_it_answers_and_refuses(package: Path, monkeypatch: pytest.MonkeyPatch):
    for key, value in SETTINGS.items():
        monkeypatch.setenv(key, value)
    module = load_module(package)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = module.Model()
    np.testing.assert_allclose(model.predict(inputs(3))["y"], reference(*inputs(3).values()))
    with pytest.raises(module.InputRefused, match="must lie in"):
        model.predict(inputs(9))


def test_info_shows_the_contract_and_starts_no_model(package: Path):
    info = json.loads(run(package, "--info").stdout)
    assert info["dims"]["batch"]["max"] == 8
    assert info["settings_in_force"] is False
    assert info["settings"]["environment"] == SETTINGS


@pytest.mark.skipif(denormals.unavailable() is not None, reason=str(denormals.unavailable()))
def test_a_package_measured_without_denormals_runs_without_them_in_every_thread_that_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    kept = write(tmp_path / "kept", denormals="kept")
    flushed = write(tmp_path / "flushed", denormals="flushed")
    assert not (kept / "denormals.py").exists()
    assert "denormals.py" in json.loads((flushed / "manifest.json").read_text())["files"]
    assert "count as zero" in (flushed / "README.md").read_text()
    assert "count as zero" not in (kept / "README.md").read_text()
    for key, value in SETTINGS.items():
        monkeypatch.setenv(key, value)
    seen: dict[str, bool] = {}

    def call(name: str, model: Any) -> None:
        model.predict(inputs())
        seen[name] = denormals.flushed()

    try:
        models = {name: load_module(folder).Model() for name, folder in (("kept", kept), ("flushed", flushed))}
    finally:
        denormals.flush(False)  # it was done for this very thread
    for name, model in models.items():
        thread = threading.Thread(target=call, args=(name, model))
        thread.start()
        thread.join(60)
    assert seen == {"kept": False, "flushed": True}
