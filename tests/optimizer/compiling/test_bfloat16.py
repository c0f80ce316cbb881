"""The rewrite to bfloat16: inputs and outputs keep their dtypes, what is named stays float32, values stay near."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.export import ExportedProgram

from optimizer.compiling.bfloat16 import functional
from optimizer.compiling.kept import Shape
from optimizer.compiling.layers import bfloat16_layers
from optimizer.compiling.precision import supported, to_bfloat16
from optimizer.errors import FuseworksError
from optimizer.optimizing.graph import Graph
from optimizer.spec import KeepFloat32
from tests.optimizer.compiling.support import Builder, Loaded, export, inputs, ranker, truth


def dtypes(program: ExportedProgram, name: str) -> list[tuple[torch.dtype, torch.dtype]]:
    """For each call of an operation: the dtype of its first floating input, and of its result."""
    found = []
    for node in program.graph_module.graph.nodes:
        if node.op == "call_function" and name in str(node.target):
            given = [n.meta["val"].dtype for n in node.all_input_nodes if n.meta["val"].dtype.is_floating_point]
            found.append((given[0], node.meta["val"].dtype))
    return found


LOW, FULL = torch.bfloat16, torch.float32


def test_products_and_tables_become_bfloat16_and_norms_stay_float32() -> None:
    program = to_bfloat16(export(ranker()), KeepFloat32())
    assert dtypes(program, "aten.embedding") == [(LOW, LOW)]
    assert dtypes(program, "aten.linear") == [(LOW, LOW), (LOW, LOW)]
    assert dtypes(program, "aten.layer_norm") == [(FULL, FULL)]
    weights = {name: weight.dtype for name, weight in program.state_dict.items()}
    assert weights["table.weight"] == weights["hidden.weight"] == weights["head.bias"] == LOW
    assert weights["norm.weight"] == FULL


def test_the_given_program_is_not_changed() -> None:
    original = export(ranker())
    before = str(original.graph)
    to_bfloat16(original, KeepFloat32())
    assert str(original.graph) == before
    assert {w.dtype for w in original.state_dict.values()} == {FULL}


def test_what_is_named_stays_float32() -> None:
    program = to_bfloat16(export(ranker()), KeepFloat32(last_linears=1, ops=["embedding"]))
    assert dtypes(program, "aten.embedding") == [(FULL, FULL)]
    assert dtypes(program, "aten.linear") == [(LOW, LOW), (FULL, FULL)]
    assert program.state_dict["head.weight"].dtype == program.state_dict["table.weight"].dtype == FULL


def test_what_follows_the_last_product_is_float32() -> None:
    class Head(torch.nn.Module):
        def forward(self, ids: torch.Tensor, dense: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
            return torch.sigmoid(torch.tanh(dense @ dense.T) @ dense)

    program = to_bfloat16(export(Head()), KeepFloat32())
    assert dtypes(program, "aten.tanh") == [(LOW, LOW)]
    assert dtypes(program, "aten.sigmoid") == [(FULL, FULL)]


def test_a_weight_that_is_used_in_both_precisions_is_kept_and_cast_when_called() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(4, 4))

        def forward(self, ids: torch.Tensor, dense: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
            return dense @ self.weight + self.weight.exp().sum()

    program = to_bfloat16(export(Tied()), KeepFloat32())
    assert program.state_dict["weight"].dtype == FULL
    assert dtypes(program, "aten.matmul") == [(LOW, LOW)]
    assert dtypes(program, "aten.exp") == [(FULL, FULL)]


def test_an_operation_in_place_is_made_functional_first() -> None:
    class InPlace(torch.nn.Module):
        def forward(self, ids: torch.Tensor, dense: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
            product = dense @ dense.T
            product.clamp_(min=0)
            return product.sum(-1)

    module = InPlace()
    program = to_bfloat16(export(module), KeepFloat32())
    arguments = [torch.tensor(a) for a in inputs(7)]
    got, wanted = program.module()(*arguments), module(*arguments)
    assert got.dtype == FULL
    torch.testing.assert_close(got, wanted, rtol=2e-2, atol=2e-2)


class Two(torch.nn.Module):
    """Two layers of one shape that read one input, and a third behind the second."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (torch.nn.Linear(1, 1, bias=False) for _ in range(3))
        for layer in (self.a, self.b, self.c):
            torch.nn.init.ones_(layer.weight)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        first, second = self.a(x), self.b(x)
        return first, second, self.c(second)


# between 1 and 2 bfloat16 has steps of 2**-7: half a step goes to the even neighbour, 1
HALF_A_STEP = 1.0 + 2.0**-8


@pytest.mark.parametrize(
    ("keep", "wanted", "casts"),
    [
        ([], [1.0, 1.0, 1.0], 4),  # x once for both, and each output back
        ([{"inputs": 1, "outputs": 1, "nth": [1]}], [1.0, HALF_A_STEP, 1.0], 4),  # x, b's answer for c, a's and c's
        ([{"inputs": 1, "outputs": 1, "nth": [0, 2]}], [HALF_A_STEP, 1.0, 1.0], 2),  # x, and b's for c and the caller
        ([{"inputs": 1, "outputs": 1, "nth": [1, 2]}], [1.0, HALF_A_STEP, HALF_A_STEP], 2),
    ],
)
def test_layers_that_are_named_by_their_place_stay_float32_and_no_value_is_cast_twice(
    keep: list[dict[str, object]], wanted: list[float], casts: int
) -> None:
    with torch.no_grad():
        exported = torch.export.export(Two().eval(), (torch.ones(1, 1),))
    program = to_bfloat16(exported, KeepFloat32.model_validate({"layers": keep}))
    answers = program.module()(torch.full((1, 1), HALF_A_STEP))
    assert [answer.item() for answer in answers] == wanted
    assert sum("aten.to" in str(node.target) for node in program.graph.nodes) == casts


@pytest.mark.parametrize(
    ("keep", "embedding", "linears"),
    [
        ({"op": "embedding", "inputs": 50, "outputs": 8}, FULL, [LOW, LOW]),
        ({"inputs": 16, "outputs": 1}, LOW, [LOW, FULL]),
        ({"op": "matmul", "inputs": 16, "outputs": 1}, LOW, [LOW, LOW]),
    ],
)
def test_a_layer_is_named_by_its_operation_and_shape(
    keep: dict[str, object], embedding: torch.dtype, linears: list[torch.dtype]
) -> None:
    program = to_bfloat16(export(ranker()), KeepFloat32.model_validate({"layers": [keep]}))
    assert dtypes(program, "aten.embedding") == [(embedding, embedding)]
    assert [given for given, _ in dtypes(program, "aten.linear")] == linears


def test_a_product_of_two_inputs_is_a_layer_too_and_so_in_a_graph_that_wrote_in_place() -> None:
    class InPlace(torch.nn.Module):
        def forward(self, ids: torch.Tensor, dense: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
            product = dense @ dense.T
            product.clamp_(min=0)
            return product @ dense

    exported = export(InPlace(), dynamic=False)
    assert [layer.shape for layer in bfloat16_layers(Graph.from_exported(functional(exported)))] == [
        Shape(4, 4, "matmul"),
        Shape(4, 4, "matmul"),
    ]
    keep = KeepFloat32.model_validate({"layers": [{"op": "matmul", "inputs": 4, "outputs": 4, "nth": [1]}]})
    assert dtypes(to_bfloat16(exported, keep), "aten.matmul") == [(LOW, LOW), (FULL, FULL)]


def test_a_size_that_varies_is_no_part_of_a_layers_name() -> None:
    class Scores(torch.nn.Module):
        def forward(self, ids: torch.Tensor, dense: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
            return (dense @ dense.T).softmax(-1) @ dense

    layers = bfloat16_layers(Graph.from_exported(export(Scores())))
    assert [layer.shape for layer in layers] == [Shape(4, None, "matmul"), Shape(None, 4, "matmul")]


def test_where_nothing_is_left_it_is_refused() -> None:
    keep = [
        {"op": "embedding", "inputs": 50, "outputs": 8},
        {"inputs": 12, "outputs": 16},
        {"inputs": 16, "outputs": 1},
    ]
    with pytest.raises(FuseworksError, match="no operation that gains from it is left") as caught:
        to_bfloat16(export(ranker()), KeepFloat32.model_validate({"layers": keep}))
    assert caught.value.id == "compiling:user:unsupported"


def test_parts_of_a_result_go_on_in_either_precision() -> None:
    class Parts(torch.nn.Module):
        def forward(self, ids: torch.Tensor, dense: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
            left, right = (dense @ dense.T @ dense).chunk(2, -1)
            return left @ left.T + right.exp().sum()

    module = Parts()
    program = to_bfloat16(export(module), KeepFloat32())
    assert dtypes(program, "aten.exp") == [(FULL, FULL)]
    arguments = [torch.tensor(a) for a in inputs(3)]
    torch.testing.assert_close(program.module()(*arguments), module(*arguments), rtol=5e-2, atol=5e-2)


def test_control_flow_is_refused_with_the_reason() -> None:
    class Branches(torch.nn.Module):
        def forward(self, ids: torch.Tensor, dense: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
            return torch.cond(keep.any(), lambda x: x * 2, lambda x: x * 3, (dense,))

    with pytest.raises(FuseworksError, match="control flow") as caught:
        to_bfloat16(export(Branches()), KeepFloat32())
    assert caught.value.id == "compiling:user:unsupported"


def test_a_built_model_in_bfloat16_keeps_its_dtypes_and_stays_near(builder: Builder, tmp_path: Path) -> None:
    built = builder.build("ranker", tmp_path, "eager", precision={"precision": "bfloat16"})
    assert built.reply is not None and built.reply.fields["details"]["inference_precision"] == "bfloat16"
    with Loaded(built) as loaded:
        for batch in (1, 3, 7):
            given = inputs(batch)
            (answer,) = loaded.outputs(given)
            wanted = truth(given)
            assert [(a.dtype, a.shape) for a in answer] == [(w.dtype, w.shape) for w in wanted]
            for got, exact in zip(answer, wanted, strict=True):
                np.testing.assert_allclose(got, exact, rtol=0, atol=0.05)
            # bfloat16 has 8 bits of significand: equal to float32 would mean that nothing was rewritten
            assert np.abs(answer[1] - wanted[1]).max() > 1e-4
            np.testing.assert_array_equal(answer[2], wanted[2])
        assert loaded.reply.fields["inference_precision"] == "bfloat16"


@pytest.mark.parametrize("name", ["ranker", "onnx"])
def test_onnx_runtime_has_no_bfloat16(builder: Builder, tmp_path: Path, name: str) -> None:
    with pytest.raises(FuseworksError) as caught:
        builder.build(name, tmp_path, "onnxruntime", precision={"precision": "bfloat16"})
    assert caught.value.id == "compiling:user:unsupported", caught.value.detail


def test_openvino_refuses_to_keep_parts_in_float32(builder: Builder, tmp_path: Path) -> None:
    precision = {"precision": "bfloat16", "keep_float32": {"last_linears": 1}}
    with pytest.raises(FuseworksError, match="keep_float32 cannot be honoured") as caught:
        builder.build("ranker", tmp_path, "openvino", precision=precision)
    assert caught.value.id == "compiling:user:unsupported"


@pytest.mark.parametrize(
    ("flags", "worth_it"),
    [
        (["avx2", "fma"], False),
        (["avx512f", "avx512_bf16"], True),
        (["amx_bf16"], True),
        (["asimd", "bf16"], True),
        ([], False),
    ],
)
def test_bfloat16_is_proposed_only_where_the_processor_multiplies_it(flags: list[str], worth_it: bool) -> None:
    assert (supported(flags) is None) == worth_it
