"""Names of nodes as engines give them, led back to the user's module and line."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from optimizer.profiling.document import GraphNode
from optimizer.profiling.places import common_place, found_in, of_onnx, source_of

TRACE = (
    'File "/home/u/model.py", line 41, in forward\n    x = self.head(x)\n'
    'File "/env/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 134, in forward\n    return F.linear('
)
LINEAR = GraphNode(node="linear", op="linear", module="head", source="model.py:41")


def saved(path: Path, **facts: str) -> Path:
    """One node `n` whose output is `y`, with what torch.onnx would have written beside it."""
    node = helper.make_node("Gemm", ["x", "w"], ["y"], name="n")
    for key, value in facts.items():
        node.metadata_props.add(key=f"pkg.torch.onnx.{key}", value=value)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in "xwy"]
    onnx.save(helper.make_model(helper.make_graph([node], "g", values[:2], values[2:])), path)
    return path


def test_the_users_own_line_is_the_innermost_outside_torch():
    assert source_of(TRACE) == "model.py:41"
    assert source_of("") is None


def test_a_node_that_torch_exported_has_the_place_of_the_node_that_it_was_made_of(tmp_path: Path):
    places = of_onnx(
        saved(
            tmp_path / "m.onnx",
            fx_node="%linear : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args = (%x,))",
            name_scopes="['', 'head', 'linear']",
            stack_trace=TRACE,
        )
    )
    assert places == {"n": LINEAR, "y": LINEAR}  # by its name and by that of its output


def test_an_operation_of_ours_keeps_its_name_space_and_the_root_module_is_none(tmp_path: Path):
    fx_node = "%gemm : [num_users=1] = call_function[target=torch.ops.fuseworks.grouped_linear.default](args = ())"
    place = of_onnx(saved(tmp_path / "m.onnx", fx_node=fx_node, name_scopes="['', 'gemm']"))["n"]
    assert place == GraphNode(node="gemm", op="fuseworks::grouped_linear")


@pytest.mark.parametrize("facts", [{}, {"fx_node": "something else"}])
def test_a_node_of_any_other_origin_is_its_own_place(tmp_path: Path, facts: dict[str, str]):
    assert of_onnx(saved(tmp_path / "m.onnx", **facts))["y"] == GraphNode(node="n", op="Gemm", module="n")


@pytest.mark.parametrize("scopes", ["", "[", "'head'", "['only']"])
def test_scopes_that_say_nothing_cost_the_module_only(tmp_path: Path, scopes: str):
    fx_node = "%linear : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args = ())"
    place = of_onnx(saved(tmp_path / "m.onnx", fx_node=fx_node, name_scopes=scopes))["n"]
    assert (place.op, place.module) == ("linear", None)


def test_a_name_is_found_with_the_engines_own_words_behind_it_and_what_it_made_up_stays_a_name():
    names = ["linear/aten.linear.default/MatMul", "linear/aten.linear.default/Add", "Constant_7"]
    assert found_in(names, {"linear": LINEAR}) == [LINEAR, GraphNode(node="Constant_7")]


def test_a_name_that_another_operation_got_when_the_graph_was_decomposed_is_not_taken_for_the_node():
    assert found_in(["linear/aten.mul.Tensor/Multiply"], {"linear": LINEAR}) == [
        GraphNode(node="linear/aten.mul.Tensor/Multiply")
    ]
    ours = GraphNode(node="gemm", op="fuseworks::grouped_linear")
    assert found_in(["gemm/fuseworks.grouped_linear.default/X"], {"gemm": ours}) == [ours]
    assert found_in(["node_linear/WithoutBiases"], {"node_linear": LINEAR}) == [LINEAR], "out of an ONNX file"


def test_only_what_all_nodes_have_in_common_is_the_place_of_a_kernel():
    other = LINEAR.model_copy(update={"node": "relu", "op": "relu", "module": None})
    assert common_place([LINEAR, LINEAR]) == {"module": "head", "source": "model.py:41"}
    assert common_place([LINEAR, other]) == {"module": None, "source": "model.py:41"}
    assert common_place([]) == {"module": None, "source": None}
