"""The rewrite to int8: rounded per row and per output channel, what is kept stays, values stay near."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch.export import Dim, ExportedProgram

from optimizer.compiling.int8 import rounded_weight, rounded_weight_only
from optimizer.compiling.precision import int8_refusal, to_bfloat16, to_int8
from optimizer.errors import FuseworksError
from optimizer.spec import KeepFloat32, LayerShape, PrecisionStep
from tests.optimizer.compiling.support import Builder, Loaded, export, inputs, ranker, truth


class Layer(torch.nn.Module):
    def __init__(self, weight: list[list[float]], bias: list[float] | None = None) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(weight))
        self.bias = None if bias is None else torch.nn.Parameter(torch.tensor(bias))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, self.weight, self.bias)


def in_int8(module: torch.nn.Module, *args: torch.Tensor, dims: object = None, **keep: object) -> ExportedProgram:
    with torch.no_grad():
        exported = torch.export.export(module.eval(), args, dynamic_shapes=dims)  # type: ignore[arg-type]
    return to_int8(exported, KeepFloat32.model_validate(keep))


def count(program: ExportedProgram, name: str) -> int:
    return sum(name == str(node.target) for node in program.graph.nodes if node.op == "call_function")


def test_weights_are_rounded_by_output_channel() -> None:
    whole, scale = rounded_weight(torch.tensor([[1.27, -0.5, 0.004], [0.0, 254.0, 3.0], [0.0, 0.0, 0.0]]))
    assert whole.tolist() == [[127, -50, 0], [0, 127, 2], [0, 0, 0]]  # 1.5 goes to the even neighbour
    torch.testing.assert_close(scale[:2], torch.tensor([0.01, 2.0]))


def test_products_are_those_of_whole_numbers_worked_out_by_hand() -> None:
    program = in_int8(Layer([[1.27, -0.5], [0.0, 254.0]], [1.0, -1.0]), torch.zeros(2, 2))
    x = torch.tensor([[2.54, -0.031], [127.0, 64.4]])
    # rows: 127 and -2 (of -1.55) by 0.02; 127 and 64 by 1. Weights: 127 and -50 by 0.01; 0 and 127 by 2
    wanted = [
        [(127 * 127 + 2 * 50) * 0.02 * 0.01 + 1, -2 * 127 * 0.02 * 2 - 1],
        [(127 * 127 - 64 * 50) * 0.01 + 1, 64 * 127 * 2.0 - 1],
    ]
    torch.testing.assert_close(program.module()(x), torch.tensor(wanted), rtol=1e-6, atol=1e-6)


def test_one_large_row_costs_the_others_nothing() -> None:
    torch.manual_seed(0)
    module = torch.nn.Linear(64, 8)
    program = in_int8(module, torch.zeros(5, 64)).module()
    x = torch.randn(5, 64)
    alone, beside = program(x), x.clone()
    beside[3] *= 1e6
    torch.testing.assert_close(program(beside)[[0, 1, 2, 4]], alone[[0, 1, 2, 4]], rtol=0, atol=0)


def test_a_row_of_zeros_gives_the_bias_and_a_row_with_a_nan_gives_nan_alone() -> None:
    program = in_int8(Layer([[1.0, 2.0], [3.0, -4.0]], [0.5, -0.25]), torch.zeros(3, 2)).module()
    got = program(torch.tensor([[0.0, 0.0], [float("nan"), 1.0], [1e-20, 0.0]]))
    assert got[0].tolist() == [0.5, -0.25]
    assert got[1].isnan().all()
    assert got[2].tolist() == [0.5, -0.25]


def test_rows_behind_a_relu_are_rounded_to_twice_as_many_steps() -> None:
    class Behind(Layer):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(torch.relu(x).unsqueeze(1)).squeeze(1)

    program = in_int8(Behind([[1.27, -0.5]]), torch.zeros(2, 2))
    # 255 and 50 (of 50.3) by 0.02; a row of nothing but what the ReLU takes away
    wanted = [[(255 * 127 - 50 * 50) * 0.02 * 0.01], [0.0]]
    got = program.module()(torch.tensor([[5.1, 1.006], [-3.0, -1.0]]))
    torch.testing.assert_close(got, torch.tensor(wanted), rtol=1e-6, atol=1e-6)
    assert count(program, "aten.abs.default") == 0


@pytest.mark.parametrize("shape", [(5, 123), (2, 5, 123), (2, 1, 3, 123)])
def test_leading_dimensions_stay_also_where_they_vary(shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    module = torch.nn.Linear(123, 7)
    program = in_int8(module, torch.zeros(*shape), dims=({0: Dim("batch", min=1, max=64)},)).module()
    for batch in (1, 33):
        x = torch.randn(batch, *shape[1:])
        got, wanted = program(x), module(x)
        assert got.shape == wanted.shape and got.dtype == torch.float32
        # two roundings to 1/127 of the largest: about a hundredth of the spread
        error = ((got - wanted).pow(2).mean() / wanted.var()).sqrt()
        assert 1e-4 < error < 2e-2


def test_an_input_that_two_layers_read_is_rounded_once() -> None:
    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Linear(4, 3), torch.nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([self.a(x), self.b(x)], -1)

    program = in_int8(Two(), torch.zeros(2, 4))
    assert (count(program, "aten._int_mm.default"), count(program, "aten.amax.default")) == (2, 1)


def test_a_product_written_as_matmul_is_a_layer_too_and_one_of_two_inputs_is_none() -> None:
    class Products(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(4, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x @ self.weight) @ (x @ self.weight).T

    program = in_int8(Products(), torch.zeros(2, 4))
    assert (count(program, "aten._int_mm.default"), count(program, "aten.matmul.default")) == (2, 1)


@pytest.mark.parametrize(
    ("keep", "linears", "products"),
    [
        ({}, 0, 2),
        ({"last_linears": 1}, 1, 1),
        ({"layers": [{"inputs": 12, "outputs": 16}]}, 1, 1),
        ({"layers": [{"inputs": 12, "outputs": 16, "nth": [1]}]}, 0, 2),
    ],
)
def test_what_is_named_stays_float32(keep: dict[str, object], linears: int, products: int) -> None:
    program = to_int8(export(ranker()), KeepFloat32.model_validate(keep))
    assert (count(program, "aten.linear.default"), count(program, "aten._int_mm.default")) == (linears, products)


def test_the_given_program_is_not_changed() -> None:
    original = export(ranker())
    before = str(original.graph)
    to_int8(original, KeepFloat32())
    assert str(original.graph) == before


def test_the_rest_in_bfloat16_leaves_the_rounding_of_rows_and_their_products_as_they_are(
    builder: Builder, tmp_path: Path
) -> None:
    program = to_bfloat16(to_int8(export(ranker()), KeepFloat32(last_linears=1)), KeepFloat32())
    given: dict[str, set[torch.dtype]] = {}
    for node in program.graph.nodes:
        if node.op == "call_function":
            name, dtypes = str(node.target).split(".")[1], [n.meta["val"].dtype for n in node.all_input_nodes]
            given.setdefault(name, set()).update(dtypes)
    assert given["abs"] == given["amax"] == given["div"] == given["round"] == {torch.float32}
    assert given["clamp_min"] == {torch.float32}
    assert (given["_int_mm"], given["linear"], given["embedding"]) == (
        {torch.int8},
        {torch.bfloat16},
        {torch.bfloat16, torch.int64},
    )
    precision = {"precision": "int8", "keep_float32": {"last_linears": 1}, "rest": "bfloat16"}
    with Loaded(builder.build("ranker", tmp_path, "eager", precision=precision)) as loaded:
        (answer,) = loaded.outputs(inputs(7))
        for got, exact in zip(answer, truth(inputs(7)), strict=True):
            np.testing.assert_allclose(got, exact, rtol=0, atol=0.05)


# 127 / (1 + 2**-7) is 126.02; the others are whole multiples of that scale
WIDE = [[127.0, 64.5, -2.015625, *[0.0] * 29]]


def test_of_weights_alone_the_scale_is_one_that_bfloat16_has() -> None:
    whole, scale = rounded_weight_only(torch.tensor(WIDE))
    assert whole[0, :4].tolist() == [126, 64, -2, 0]
    assert (scale.dtype, scale.item()) == (torch.bfloat16, 1.0078125)


def test_of_weights_alone_products_are_worked_out_by_hand() -> None:
    with torch.no_grad():
        exported = torch.export.export(Layer(WIDE, [0.25]), (torch.zeros(1, 32),))
    program = to_int8(exported, KeepFloat32(), [LayerShape(inputs=32, outputs=1)])
    x = torch.zeros(1, 32)
    x[0, :3] = torch.tensor([1.0, 2.0, 1.0 + 2.0**-8])  # the last is 1 in bfloat16
    # (126 + 2 * 64 - 2) * 1.0078125 is 253.97, which bfloat16 has as 254; the bias is added in float32
    assert program.module()(x).item() == 254.25
    assert (count(program, "aten._weight_int8pack_mm.default"), count(program, "aten._int_mm.default")) == (1, 0)


@pytest.mark.parametrize("shape", [(5, 64), (2, 5, 64)])
def test_of_weights_alone_leading_dimensions_stay_also_where_they_vary(shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    module = torch.nn.Linear(64, 7)
    with torch.no_grad():
        dims = ({0: Dim("batch", min=1, max=64)},)
        exported = torch.export.export(module, (torch.zeros(*shape),), dynamic_shapes=dims)
    program = to_int8(exported, KeepFloat32(), [LayerShape(inputs=64, outputs=7)]).module()
    for batch in (1, 9):
        x = torch.randn(batch, *shape[1:])
        got, wanted = program(x), module(x)
        assert got.shape == wanted.shape and got.dtype == torch.float32
        error = ((got - wanted).pow(2).mean() / wanted.var()).sqrt()
        assert 1e-4 < error < 1e-2


def test_weights_alone_are_refused_where_torchs_product_would_read_beyond_its_inputs() -> None:
    with torch.no_grad():
        exported = torch.export.export(torch.nn.Linear(24, 4), (torch.zeros(1, 24),))
    with pytest.raises(FuseworksError, match="want a multiple of 32 inputs, and a layer has 24") as caught:
        to_int8(exported, KeepFloat32(), [LayerShape(inputs=24, outputs=4)])
    assert caught.value.id == "compiling:user:unsupported"


def test_only_int8_has_layers_with_weights_alone() -> None:
    with pytest.raises(ValidationError, match="`weight_only` layers are int8"):
        PrecisionStep(precision="bfloat16", weight_only=[LayerShape(inputs=32, outputs=1)])


def test_only_int8_leaves_a_rest() -> None:
    with pytest.raises(ValidationError, match="`rest` is what int8 leaves"):
        PrecisionStep(precision="bfloat16", rest="bfloat16")
    with pytest.raises(ValidationError, match="`rest_keep_float32` is what stays of a rest in bfloat16"):
        PrecisionStep(precision="int8", rest_keep_float32=KeepFloat32(last_linears=1))


def test_of_a_rest_in_bfloat16_what_is_named_stays_float32(builder: Builder, tmp_path: Path) -> None:
    precision = {
        "precision": "int8",
        "keep_float32": {"last_linears": 1},
        "rest": "bfloat16",
        "rest_keep_float32": {"layers": [{"inputs": 16, "outputs": 1}]},
    }
    with Loaded(builder.build("ranker", tmp_path, "eager", precision=precision)) as loaded:
        ((score, hidden, _),) = loaded.outputs(inputs(7))
    weight, bias = (parameter.detach().numpy() for parameter in (ranker().head.weight, ranker().head.bias))
    # the head in float32, of what came of int8; in bfloat16 it would be off by some 1e-3
    wanted = hidden @ weight[0] + bias[0] - np.where(inputs(7)[2], 0, 1)
    np.testing.assert_allclose(score, wanted, rtol=0, atol=1e-6)
    assert np.abs(hidden - truth(inputs(7))[1]).max() > 1e-4


@pytest.mark.slow
def test_inductor_calls_the_product_itself_and_not_what_it_would_replace_it_by(tmp_path: Path) -> None:
    """Its replacement runs a reference implementation over signed rows."""
    from torch._dynamo.utils import counters

    program = to_int8(export(ranker()), KeepFloat32())
    counters.clear()
    with torch.no_grad():
        torch._inductor.aoti_compile_and_package(
            program, package_path=str(tmp_path / "model.pt2"), inductor_configs={"freezing": True}
        )
    assert counters["inductor"]["qlinear_weight_prepack_matcher_count"] == 0
    assert counters["inductor"]["extern_calls"] == 2


@pytest.mark.parametrize("keep", [{"last_linears": 2}, {"ops": ["linear"]}])
def test_it_refuses_a_graph_in_which_no_layer_is_left(keep: dict[str, object]) -> None:
    with pytest.raises(FuseworksError, match="no linear layer with constant float32 weights is left") as caught:
        to_int8(export(ranker()), KeepFloat32.model_validate(keep))
    assert caught.value.id == "compiling:user:unsupported"


def test_a_built_model_in_int8_keeps_its_dtypes_and_stays_near(builder: Builder, tmp_path: Path) -> None:
    built = builder.build("ranker", tmp_path, "eager", precision={"precision": "int8"})
    assert built.reply is not None and built.reply.fields["details"]["inference_precision"] == "int8"
    with Loaded(built) as loaded:
        for batch in (1, 3, 7):
            given = inputs(batch)
            (answer,) = loaded.outputs(given)
            wanted = truth(given)
            assert [(a.dtype, a.shape) for a in answer] == [(w.dtype, w.shape) for w in wanted]
            for got, exact in zip(answer, wanted, strict=True):
                np.testing.assert_allclose(got, exact, rtol=0, atol=0.05)
            # equal to float32 would mean that nothing was rewritten
            assert np.abs(answer[1] - wanted[1]).max() > 1e-4
            np.testing.assert_array_equal(answer[2], wanted[2])
        assert loaded.reply.fields["inference_precision"] == "int8"


@pytest.mark.parametrize("name", ["ranker", "onnx"])
def test_onnx_runtime_quantizes_by_itself(builder: Builder, tmp_path: Path, name: str) -> None:
    built = builder.build(name, tmp_path, "onnxruntime", precision={"precision": "int8"})
    with Loaded(built) as loaded:
        given = inputs(7)
        (answer,) = loaded.outputs(given)
        wanted = truth(given)
        for got, exact in zip(answer, wanted, strict=True):
            np.testing.assert_allclose(got, exact, rtol=0, atol=0.1)
        assert np.abs(answer[1] - wanted[1]).max() > 1e-4
        assert loaded.reply.fields["inference_precision"] == "int8"


def test_onnx_runtime_refuses_to_keep_layers(builder: Builder, tmp_path: Path) -> None:
    precision = {"precision": "int8", "keep_float32": {"last_linears": 1}}
    with pytest.raises(FuseworksError, match="keep_float32 cannot be honoured") as caught:
        builder.build("ranker", tmp_path, "onnxruntime", precision=precision)
    assert caught.value.id == "compiling:user:unsupported"


def test_openvino_has_no_int8_of_its_own(builder: Builder, tmp_path: Path) -> None:
    with pytest.raises(FuseworksError) as caught:
        builder.build("ranker", tmp_path, "openvino", precision={"precision": "int8"})
    assert caught.value.id == "compiling:user:unsupported", caught.value.detail


@pytest.mark.parametrize(
    ("target", "flags", "refused"),
    [
        ("cpu", ["avx512_vnni"], False),
        ("cpu", ["avx_vnni"], False),
        ("cpu", ["asimddp"], False),
        ("cpu", ["avx2", "avx512f"], True),
        ("cuda:sm_90", ["avx512_vnni"], True),
    ],
)
def test_int8_is_proposed_only_on_processors_that_sum_its_products(
    target: str, flags: list[str], refused: bool
) -> None:
    assert (int8_refusal(target, flags) is not None) == refused
