"""What ONNX Runtime really leaves out when it is told to, and that the names are its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from optimizer.compiling.backends.onnxruntime import OnnxRuntime, _session_config
from optimizer.compiling.onnx_optimizers import LEAVE_OUT, OPTIMIZERS


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """x * (1 + erf(x / sqrt 2)) / 2, which the runtime fuses to one Gelu, behind a product and a bias."""
    weight = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    constants = {"w": weight, "b": weight[0], "root": np.sqrt(2.0), "one": 1.0, "half": 0.5}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["h"]),
        helper.make_node("Div", ["h", "root"], ["d"]),
        helper.make_node("Erf", ["d"], ["e"]),
        helper.make_node("Add", ["e", "one"], ["s"]),
        helper.make_node("Mul", ["h", "s"], ["p"]),
        helper.make_node("Mul", ["p", "half"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "gelu",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
        [numpy_helper.from_array(np.asarray(v, np.float32), name) for name, v in constants.items()],
    )
    path = tmp_path_factory.mktemp("gelu") / "gelu.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def operations(model: Path, tmp_path: Path, **options: Any) -> list[str]:
    """What is left of the graph once the runtime has optimized it."""
    wanted = onnxruntime.SessionOptions()
    wanted.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    wanted.log_severity_level = 3
    for key, value in _session_config(OnnxRuntime.Options(**options)).items():
        wanted.add_session_config_entry(key, value)
    onnxruntime.InferenceSession(str(model), wanted, providers=["CPUExecutionProvider"])
    return [node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node]


def test_an_optimizer_that_is_named_does_not_run_and_the_others_do(model: Path, tmp_path: Path) -> None:
    fused = operations(model, tmp_path)
    assert "Erf" not in fused and len(fused) < 4
    apart = operations(model, tmp_path, disabled_optimizers=["GeluFusionL1", "GeluFusionL2", "BiasGeluFusion"])
    assert "Erf" in apart and "MatMul" not in apart, "the product and its bias are still one"
    assert operations(model, tmp_path, disabled_optimizers=list(OPTIMIZERS)) == [
        "MatMul", "Add", "Div", "Erf", "Add", "Mul", "Mul"
    ]  # fmt: skip


def test_the_setting_is_left_out_where_nothing_is_disabled() -> None:
    assert LEAVE_OUT not in _session_config(OnnxRuntime.Options())
    assert _session_config(OnnxRuntime.Options(disabled_optimizers=["A", "B"]))[LEAVE_OUT] == "A;B"
    with pytest.raises(ValueError, match="disabled_optimizers"):
        OnnxRuntime.Options(disabled_optimizers=["A;B"])


def test_all_names_fit_into_the_setting() -> None:
    assert len(OPTIMIZERS) == len(set(OPTIMIZERS)) and len(";".join(OPTIMIZERS)) < 2048
