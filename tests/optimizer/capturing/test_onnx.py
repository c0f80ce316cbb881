"""`.onnx` uploads: checked, dimensions named, ids bounded, refusals by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from optimizer.errors import FuseworksError
from tests.models.onnx_mlp import ranker
from tests.optimizer.capturing.uploads import capture, zipped


def model(
    nodes: list[Any],
    inputs: dict[str, tuple[int, list[Any] | None]],
    weights: dict[str, np.ndarray] | None = None,
    *,
    opset: int = 17,
    ir_version: int = 9,
    y: tuple[Any, ...] = (None,),
    **fields: Any,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, y)],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset), *fields.pop("opsets", [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir_version, **fields)


def written(folder: Path, proto: onnx.ModelProto) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def refused(path: Path, tmp_path: Path, **fields: Any) -> FuseworksError:
    with pytest.raises(FuseworksError) as caught:
        capture(path, tmp_path / "s", **fields)
    assert len(caught.value.remedy) > 30
    return caught.value


def test_a_small_ranker_is_captured_and_runs_the_same(tmp_path: Path) -> None:
    path = written(tmp_path, ranker())
    answer = capture(path, tmp_path / "s")
    assert [(i.name, i.dtype, i.shape) for i in answer.workload.inputs] == [
        ("dense", "float32", ["batch", 4]),
        ("ids", "int64", ["batch", 2]),
    ]
    assert answer.workload.dims["batch"].model_dump() == {"serve": [64], "min": 1, "max": 2048}
    assert answer.values == {"dense": {}, "ids": {"below": [20, 50]}}
    assert answer.inspection["dynamic"] == ["batch"]
    assert answer.inspection["outputs"] == [{"name": "score", "dtype": "float32", "shape": ["batch", 1]}]
    assert answer.inspection["operations"]["Gemm"] == 2
    assert any("assumed: batch = 64" in note for note in answer.inspection["notes"])
    feed = {"dense": np.ones((3, 4), np.float32), "ids": np.array([[1, 2]] * 3)}
    runs = [onnxruntime.InferenceSession(str(p)).run(None, feed)[0] for p in (path, answer.files["captured.onnx"])]
    assert np.array_equal(*runs)


def test_the_users_workload_is_kept_and_completed(tmp_path: Path) -> None:
    asked = {
        "inputs": [
            {"name": "dense", "dtype": "float32", "shape": ["rows", 4]},
            {"name": "ids", "dtype": "int64", "shape": ["rows", 2], "values": {"zipf": 1.3}},
        ],
        "dims": {"rows": {"serve": [8], "max": 16}},
    }
    answer = capture(written(tmp_path, ranker()), tmp_path / "s", workload=asked)
    assert answer.workload.dims["rows"].serve == [8]
    assert answer.values["ids"] == {"zipf": 1.3, "below": [20, 50]}
    asked["inputs"].reverse()  # type: ignore[attr-defined]
    error = refused(written(tmp_path, ranker()), tmp_path, workload=asked)
    assert error.id == "capturing:user:workload-mismatch" and "those of the model dense, ids" in error.message
    asked["inputs"].reverse()  # type: ignore[attr-defined]
    asked["inputs"][1]["values"] = {"below": 21}  # type: ignore[index]
    error = refused(written(tmp_path, ranker()), tmp_path, workload=asked)
    assert "column 0 of input 'ids' goes up to 20, but the table that it indexes has 20 rows" in error.message


def test_ids_are_followed_through_shapes_offsets_and_moves(tmp_path: Path) -> None:
    table = np.zeros((60, 4), np.float32)
    nodes = [
        helper.make_node("Shape", ["ids"], ["shape"]),
        helper.make_node("Cast", ["ids"], ["wide"], to=TensorProto.INT64),
        helper.make_node("Add", ["offsets", "wide"], ["shifted"]),
        helper.make_node("Reshape", ["shifted", "shape"], ["again"]),
        helper.make_node("Gather", ["table", "again"], ["rows"]),
        helper.make_node("ReduceSum", ["rows", "axes"], ["y"], keepdims=0),
    ]
    weights = {"table": table, "offsets": np.array([0, 10, 30]), "axes": np.array([1, 2])}
    proto = model(nodes, {"ids": (TensorProto.INT32, ["n", 3])}, weights)
    answer = capture(written(tmp_path, proto), tmp_path / "s")
    assert answer.values["ids"]["below"] == [10, 20, 30]
    assert answer.inspection["id_rows"] == {"ids": [10, 20, 30]}


def test_an_integer_that_indexes_nothing_is_small(tmp_path: Path) -> None:
    nodes = [helper.make_node("Cast", ["mask"], ["y"], to=TensorProto.FLOAT)]
    answer = capture(
        written(tmp_path, model(nodes, {"mask": (TensorProto.INT64, ["n", 8])}, y=("n", 8))), tmp_path / "s"
    )
    assert answer.values["mask"] == {"below": 2}


def test_dimensions_without_a_name_get_one(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    answer = capture(
        written(tmp_path, model(nodes, {"x": (TensorProto.FLOAT, [None, None, 8])}, y=(None, None, 8))), tmp_path / "s"
    )
    assert answer.workload.inputs[0].shape == ["batch", "x_dim1", 8]


def test_custom_operations_are_refused_by_name(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("FusedGelu", ["x"], ["z"], domain="com.microsoft", name="layer_1/gelu"),
        helper.make_node("Flurb", ["z"], ["y"]),
    ]
    opsets = [helper.make_opsetid("com.microsoft", 1)]
    proto = model(nodes, {"x": (TensorProto.FLOAT, [2])}, opsets=opsets)
    error = refused(written(tmp_path, proto), tmp_path)
    assert (error.id, error.place) == ("capturing:user:onnx-custom-operations", "layer_1/gelu")
    assert "com.microsoft.FusedGelu, ai.onnx.Flurb" in error.message


@pytest.mark.parametrize(("opset", "ir_version", "what"), [(7, 8, "opset 7"), (17, 99, "IR version 99")])
def test_versions_out_of_range_are_refused(opset: int, ir_version: int, what: str, tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    proto = model(nodes, {"x": (TensorProto.FLOAT, [2])}, opset=opset, ir_version=ir_version)
    error = refused(written(tmp_path, proto), tmp_path)
    assert error.id == "capturing:user:onnx-version" and what in error.message


def test_an_invalid_graph_is_refused_in_the_checkers_words(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["nowhere"], ["y"])]
    error = refused(written(tmp_path, model(nodes, {"x": (TensorProto.FLOAT, [2])})), tmp_path)
    assert error.id == "capturing:user:onnx-invalid" and "nowhere" in error.message


def test_bytes_that_are_no_model_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"\xff\xff not a protobuf")
    assert refused(tmp_path / "model.onnx", tmp_path).id == "capturing:user:onnx-invalid"


@pytest.mark.parametrize(
    ("kind", "shape", "text"),
    [(TensorProto.STRING, [2], "a tensor of string"), (TensorProto.FLOAT, None, "of unknown rank")],
)
def test_inputs_that_a_workload_cannot_hold_are_refused(kind: int, shape: Any, text: str, tmp_path: Path) -> None:
    nodes = [helper.make_node("Identity", ["x"], ["z"]), helper.make_node("Relu", ["w"], ["y"])]
    proto = model(nodes, {"x": (kind, shape), "w": (TensorProto.FLOAT, [2])})
    error = refused(written(tmp_path, proto), tmp_path)
    assert (error.id, error.place) == ("capturing:user:onnx-input", "x") and text in error.message


def test_weights_beside_a_lone_file_are_refused_and_taken_in_a_zip(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    onnx.save(ranker(), str(folder / "m.onnx"), save_as_external_data=True, location="m.data", size_threshold=0)
    lone = tmp_path / "lone.onnx"
    lone.write_bytes((folder / "m.onnx").read_bytes())
    error = refused(lone, tmp_path)
    assert error.id == "capturing:user:onnx-external-data" and "zip" in error.remedy
    upload = zipped(tmp_path, {"m.onnx": folder / "m.onnx", "m.data": folder / "m.data"})
    answer = capture(upload, tmp_path / "z")
    assert (
        answer.inspection["parameters"] == capture(written(tmp_path, ranker()), tmp_path / "w").inspection["parameters"]
    )
    feed = {"dense": np.ones((3, 4), np.float32), "ids": np.array([[1, 2]] * 3)}
    assert onnxruntime.InferenceSession(str(answer.files["captured.onnx"])).run(None, feed)[0].shape == (3, 1)


def test_random_numbers_in_inference_are_noted(tmp_path: Path) -> None:
    nodes = [helper.make_node("RandomNormalLike", ["x"], ["z"]), helper.make_node("Add", ["x", "z"], ["y"])]
    notes = capture(written(tmp_path, model(nodes, {"x": (TensorProto.FLOAT, [2])})), tmp_path / "s").inspection[
        "notes"
    ]
    assert "Draws random numbers in inference: RandomNormalLike" in notes
