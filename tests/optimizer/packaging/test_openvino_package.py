"""Packages of OpenVINO: precision pinned, fixed shapes for the served sizes when the candidate was measured so."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.optimizer.packaging.conftest import inputs, predict, reference, save_model, write

openvino = pytest.importorskip("openvino")


@pytest.mark.parametrize("static", [False, True])
def test_it_answers_at_every_size_of_the_contract(tmp_path: Path, static: bool):
    save_model(tmp_path / "m.onnx")
    artifact = tmp_path / "built"
    artifact.mkdir()
    openvino.save_model(openvino.convert_model(str(tmp_path / "m.onnx")), str(artifact / "model.xml"), False)
    config = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1}
    package = write(
        tmp_path,
        backend="openvino",
        options={"static": static},
        artifact_folder=artifact,
        libraries={"openvino": openvino.__version__.partition("-")[0], "numpy": np.__version__},
        details={"entry": "model.xml", "load": {"device": "CPU", "config": config}},
    )
    manifest = json.loads((package / "manifest.json").read_text())
    assert manifest["load"]["fixed_shapes"] == ([[[4, 3], [4]]] if static else [])
    assert {"model.xml", "model.bin"} <= set(manifest["files"])
    for batch in (4, 7):
        code, error, y = predict(package, inputs(batch))
        assert code == 0, error
        np.testing.assert_allclose(y, reference(*inputs(batch).values()))
    assert predict(package, inputs(9))[0] == 4
