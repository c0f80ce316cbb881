"""A package that is fast while an input repeats: it holds two artifacts, and every call chooses between them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from optimizer.packaging.promise_template import guarded, repeats
from optimizer.packaging.run_template import read_manifest
from optimizer.spec import Workload
from tests.optimizer.packaging.conftest import WORKLOAD, inputs, predict, reference, run, save_model, write

PROMISING = Workload.model_validate({**WORKLOAD.model_dump(by_alias=True), "contracts": [{"same_over_batch": ["id"]}]})
SHIFT = np.float32(1000)


@pytest.fixture(scope="module")
def promising(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its second artifact adds 1000 to the table, so that an answer tells which of the two gave it."""
    out = tmp_path_factory.mktemp("promising")
    artifact = out / "artifact"
    artifact.mkdir()
    save_model(artifact / "otherwise-model.onnx")
    model = onnx.load(artifact / "otherwise-model.onnx")
    (table,) = (t for t in model.graph.initializer if t.name == "table")
    table.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(table) + SHIFT, "table"))
    onnx.save(model, artifact / "otherwise-model.onnx")
    return write(
        out, workload=PROMISING, details={"promised": ["id"], "otherwise": {}}, artifact_folder=artifact, sample=None
    )


def test_the_manifest_says_what_is_promised_and_how_the_other_artifact_is_loaded(promising: Path) -> None:
    manifest = read_manifest(promising)
    assert manifest["load"]["entry"] == "model.onnx"
    assert manifest["promise"]["same_over_batch"] == ["id"] and manifest["promise"]["places"] == [1]
    assert manifest["promise"]["load"]["entry"] == "otherwise-model.onnx"
    assert {"promise.py", "otherwise-model.onnx"} <= set(manifest["files"])
    assert "every row of `id` is the same" in (promising / "README.md").read_text()


@pytest.mark.parametrize(("ids", "shift"), [([3, 3, 3, 3], 0), ([3, 3, 3, 1], SHIFT), ([3, 1, 3, 3], SHIFT)])
def test_a_call_that_breaks_the_promise_goes_to_the_other_artifact(
    promising: Path, ids: list[int], shift: float
) -> None:
    given = {**inputs(), "id": np.array(ids)}
    code, told, y = predict(promising, given)
    assert code == 0, told
    np.testing.assert_allclose(y, reference(**{"dense": given["dense"], "id_": given["id"]}) + shift)


def test_the_self_test_runs_both(promising: Path) -> None:
    done = run(promising, "--self-test", "--calls", "5")
    assert done.returncode == 0, done.stderr
    broken = promising / "otherwise-model.onnx"
    kept = broken.read_bytes()
    broken.write_bytes(b"no model")
    try:
        assert run(promising, "--self-test", "--calls", "5").returncode == 3, "every file's digest is checked"
    finally:
        broken.write_bytes(kept)


def test_a_package_without_a_promise_holds_one_artifact_and_no_second_file(packaged: Path) -> None:
    assert read_manifest(packaged)["promise"] is None
    assert not (packaged / "promise.py").exists()
    assert "It is fast while" not in (packaged / "README.md").read_text()


def test_rows_are_compared_bit_by_bit_and_every_promised_input_counts() -> None:
    assert repeats(np.full((3, 2), np.nan)) and not repeats(np.array([0.0, -0.0]))
    assert repeats(np.ones((1, 2), bool)) and not repeats(np.array([True, False]))
    choose = guarded({"places": [0, 2]}, lambda arrays: ["usual"], lambda arrays: ["otherwise"])
    same, other = np.ones((2, 1)), np.array([[1.0], [2.0]])
    assert choose([same, other, same]) == ["usual"]
    assert choose([other, same, same]) == choose([same, same, other]) == ["otherwise"]
