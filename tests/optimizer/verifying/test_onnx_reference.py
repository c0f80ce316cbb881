from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from optimizer.errors import FuseworksError
from optimizer.verifying.onnx_reference import OnnxReference

RNG = np.random.default_rng(0)
WEIGHT = RNG.standard_normal((4, 3)).astype(np.float32)


def saved(nodes: list[onnx.NodeProto], path: Path, domains: tuple[str, ...] = ()) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4]),
            helper.make_tensor_value_info("n", TensorProto.INT64, ["batch"]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(WEIGHT, "w")],
        value_info=[helper.make_tensor_value_info("h", TensorProto.FLOAT, ["batch", 3])],
    )
    opsets = [helper.make_opsetid("", 18), *(helper.make_opsetid(d, 1) for d in domains)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


def test_weights_casts_and_constants_are_raised(tmp_path: Path) -> None:
    branch = helper.make_graph(
        [helper.make_node("Constant", [], ["c"], value_float=0.1), helper.make_node("Mul", ["h", "c"], ["t"])],
        "then",
        [],
        [helper.make_tensor_value_info("t", TensorProto.FLOAT, None)],
    )
    other = helper.make_graph(
        [helper.make_node("Identity", ["h"], ["e"])],
        "else",
        [],
        [helper.make_tensor_value_info("e", TensorProto.FLOAT, None)],
    )
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Constant", [], ["yes"], value=numpy_helper.from_array(np.array(True))),
        helper.make_node("If", ["yes"], ["scaled"], then_branch=branch, else_branch=other),
        helper.make_node("Cast", ["n"], ["count"], to=TensorProto.FLOAT),
        helper.make_node("Constant", [], ["axis"], value_ints=[1]),
        helper.make_node("Unsqueeze", ["count", "axis"], ["column"]),
        helper.make_node("Constant", [], ["third"], value=numpy_helper.from_array(np.array([3.0], dtype=np.float32))),
        helper.make_node("Div", ["column", "third"], ["share"]),
        helper.make_node("Add", ["scaled", "share"], ["y"]),
    ]
    reference = OnnxReference(saved(nodes, tmp_path / "m.onnx"))
    x, n = RNG.standard_normal((5, 4)).astype(np.float32), np.arange(5)
    native = reference.stage([x, n])
    [y] = reference.outputs(reference.call(native))
    assert y.dtype == np.float64
    expected = x.astype(np.float64) @ WEIGHT.astype(np.float64) * np.float64(np.float32(0.1)) + (n / 3)[:, None]
    np.testing.assert_allclose(y, expected, rtol=1e-14, atol=1e-15)
    np.testing.assert_array_equal(reference.inputs_after(native)[0], x)


def test_an_operation_that_the_evaluator_does_not_know_is_refused_by_name(tmp_path: Path) -> None:
    nodes = [helper.make_node("FusedGemmOfAVendor", ["x", "w"], ["y"], domain="com.vendor")]
    with pytest.raises(FuseworksError, match="FusedGemmOfAVendor") as caught:
        OnnxReference(saved(nodes, tmp_path / "m.onnx", ("com.vendor",)))
    assert caught.value.id == "verifying:user:no-reference"
