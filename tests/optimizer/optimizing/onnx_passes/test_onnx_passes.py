"""Rewrites of ONNX graphs: the new graph, its answers in ONNX Runtime, and what is refused and why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from optimizer.errors import FuseworksError
from optimizer.optimizing.onnx_passes import ONNX_PASSES, rewrite_onnx

FLOAT = TensorProto.FLOAT


def write(path: Path, nodes: list[onnx.NodeProto], outputs: dict[str, list[int | str]], **weights: np.ndarray) -> Path:
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return path


def op_types(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


def answer(path: Path, x: np.ndarray) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, {"x": x})


X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
A = np.array([1, 10, 100], np.float32)
B = np.array([2, 2, 2], np.float32)


def test_what_depends_on_constants_is_computed_once(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Add", ["a", "b"], ["sum"], name="add_constants"),
        helper.make_node("Mul", ["x", "sum"], ["y"], name="mul"),
    ]
    path = write(tmp_path / "m.onnx", nodes, {"y": ["batch", 3]}, a=A, b=B)
    out = tmp_path / "out.onnx"
    (rewrite,) = rewrite_onnx(path, [{"pass": "constant_folding"}], out)
    assert [op for op in op_types(out) if op != "Constant"] == ["Mul"]
    (site,) = [s for s in rewrite.applied if s.node == "add_constants"]
    assert site.reason == "Add was computed once"
    assert rewrite.numerics == "exact"
    np.testing.assert_array_equal(answer(out, X)[0], X * np.array([3, 12, 102], np.float32))


def test_a_result_beyond_the_limit_is_left_and_named(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Add", ["a", "b"], ["sum"], name="add_constants"),
        helper.make_node("Mul", ["x", "sum"], ["y"], name="mul"),
    ]
    path = write(tmp_path / "m.onnx", nodes, {"y": ["batch", 3]}, a=A, b=B)
    (rewrite,) = rewrite_onnx(
        path, [{"pass": "constant_folding", "options": {"max_elements": 2}}], tmp_path / "out.onnx"
    )
    assert rewrite.applied == []
    (refused,) = rewrite.refused
    assert refused.node == "add_constants"
    assert refused.reason == "Add of constants was left: it holds 3 elements and 2 are allowed"
    assert not (tmp_path / "out.onnx").exists()


def test_random_numbers_are_not_frozen(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("RandomNormal", [], ["noise"], name="noise", shape=[3]),
        helper.make_node("Add", ["x", "noise"], ["y"]),
    ]
    path = write(tmp_path / "m.onnx", nodes, {"y": ["batch", 3]})
    (rewrite,) = rewrite_onnx(path, [{"pass": "constant_folding"}], tmp_path / "out.onnx")
    assert [s.reason for s in rewrite.refused] == ["RandomNormal draws random numbers"]
    assert rewrite.applied == []


def test_what_is_computed_twice_is_computed_once(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "a"], ["left"], name="left"),
        helper.make_node("Mul", ["x", "same"], ["right"], name="right"),
        helper.make_node("Add", ["left", "right"], ["y"], name="add"),
    ]
    path = write(tmp_path / "m.onnx", nodes, {"y": ["batch", 3]}, a=A, same=A.copy())
    out = tmp_path / "out.onnx"
    (rewrite,) = rewrite_onnx(path, [{"pass": "eliminate_common_subexpressions"}], out)
    assert op_types(out) == ["Mul", "Add"]
    assert [(s.node, s.reason) for s in rewrite.applied] == [("right", "Mul repeats another one with the same inputs")]
    np.testing.assert_array_equal(answer(out, X)[0], 2 * X * A)


def test_different_attributes_are_not_the_same_expression(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("LeakyRelu", ["x"], ["left"], alpha=0.1),
        helper.make_node("LeakyRelu", ["x"], ["right"], alpha=0.2),
        helper.make_node("Add", ["left", "right"], ["y"]),
    ]
    path = write(tmp_path / "m.onnx", nodes, {"y": ["batch", 3]})
    (rewrite,) = rewrite_onnx(path, [{"pass": "eliminate_common_subexpressions"}], tmp_path / "out.onnx")
    assert rewrite.applied == [] and not (tmp_path / "out.onnx").exists()


def test_dead_code_goes_with_its_weights(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "a"], ["y"], name="used"),
        helper.make_node("Add", ["x", "b"], ["nobody"], name="dead"),
    ]
    path = write(tmp_path / "m.onnx", nodes, {"y": ["batch", 3]}, a=A, b=B)
    out = tmp_path / "out.onnx"
    (rewrite,) = rewrite_onnx(path, [{"pass": "dead_code"}], out)
    assert [(s.node, s.reason) for s in rewrite.applied] == [("dead", "no output depends on this Add")]
    assert [t.name for t in onnx.load(out).graph.initializer] == ["a"]
    assert (rewrite.nodes_before, rewrite.nodes_after) == (2, 1)


def test_all_passes_in_standard_order_keep_the_contract(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Identity", ["x"], ["same"], name="identity"),
        helper.make_node("Add", ["a", "b"], ["sum"], name="fold"),
        helper.make_node("Mul", ["same", "sum"], ["left"], name="left"),
        helper.make_node("Mul", ["same", "sum"], ["right"], name="right"),
        helper.make_node("Neg", ["left"], ["nobody"], name="dead"),
        helper.make_node("Add", ["left", "right"], ["y"], name="y"),
        helper.make_node("Identity", ["x"], ["z"], name="z"),
    ]
    path = write(tmp_path / "m.onnx", nodes, {"y": ["batch", 3], "z": ["batch", 3]}, a=A, b=B)
    out = tmp_path / "out.onnx"
    rewrites = rewrite_onnx(path, None, out)
    assert [r.pass_ for r in rewrites] == ["constant_folding", "eliminate_common_subexpressions", "dead_code"]
    before, after = onnx.load(path).graph, onnx.load(out).graph
    assert [v.SerializeToString() for v in before.input] == [v.SerializeToString() for v in after.input]
    assert [v.SerializeToString() for v in before.output] == [v.SerializeToString() for v in after.output]
    assert sorted(op for op in op_types(out) if op != "Constant") == ["Add", "Identity", "Mul"]
    for batch in (1, 2, 5):
        x = np.arange(batch * 3, dtype=np.float32).reshape(batch, 3)
        for got, wanted in zip(answer(out, x), answer(path, x), strict=True):
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    ("passes", "id", "words"),
    [
        ([{"pass": "fold"}], "optimizing:user:unknown-pass", "constant_folding"),
        ([{"pass": "dead_code", "options": {"deep": 1}}], "optimizing:user:bad-options", "deep"),
    ],
)
def test_unknown_passes_and_options_are_refused(
    tmp_path: Path, passes: list[dict[str, object]], id: str, words: str
) -> None:
    path = write(tmp_path / "m.onnx", [helper.make_node("Neg", ["x"], ["y"])], {"y": ["batch", 3]})
    with pytest.raises(FuseworksError) as caught:
        rewrite_onnx(path, passes, tmp_path / "out.onnx")
    assert caught.value.id == id
    assert words in caught.value.message + caught.value.remedy


def test_a_file_that_is_no_model_is_the_users_fault(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"\xff\xff no protobuf")
    with pytest.raises(FuseworksError) as caught:
        rewrite_onnx(tmp_path / "m.onnx", None, tmp_path / "out.onnx")
    assert caught.value.id == "optimizing:user:bad-model"


def test_each_pass_describes_itself() -> None:
    for one in ONNX_PASSES:
        manifest = one.manifest()
        assert manifest["title"] and manifest["summary"].endswith(".")
        assert manifest["numerics"] == "exact" and len(manifest["identity"]) == 64
        assert all("description" in option for option in manifest["options_schema"].get("properties", {}).values())
