"""torchao's quantization of an exported graph: what it computes, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.export import Dim, ExportedProgram

from optimizer.compiling.base import BACKENDS
from optimizer.errors import FuseworksError
from tests.optimizer.compiling.support import Builder

pytest.importorskip("torchao")

from optimizer.compiling.torchao_int8 import pt2e_quantized, quantized

FLOWS = {"quantize": quantized, "pt2e": pt2e_quantized}


class Two(torch.nn.Module):
    """Two linear layers, one without a bias and called with three dimensions, and a product of two inputs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first = torch.nn.Linear(64, 32, bias=False)
        self.second = torch.nn.Linear(32, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.first(x))
        return self.second(hidden) + (hidden @ hidden.transpose(1, 2)).sum(-1, keepdim=True)


def two() -> tuple[Two, ExportedProgram, torch.Tensor]:
    module = Two().eval()
    x = torch.randn(4, 3, 64, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return module, torch.export.export(module, (x,), dynamic_shapes=({0: Dim("batch", min=1, max=16)},)), x


def weights_of(program: ExportedProgram) -> list[torch.Tensor]:
    return [*program.state_dict.values(), *(c for c in program.constants.values() if isinstance(c, torch.Tensor))]


@pytest.mark.parametrize("flow", FLOWS)
def test_answers_stay_near_at_every_size_and_weights_are_int8(flow: str) -> None:
    module, exported, x = two()
    program = FLOWS[flow](exported)
    shapes = {tuple(w.shape) for w in weights_of(program) if w.dtype == torch.int8}
    assert {(32, 64), (5, 32)} <= shapes | {(b, a) for a, b in shapes if a != b}
    with torch.no_grad():
        for batch in (4, 1, 7):
            given = x[:1].repeat(batch, 1, 1) * torch.linspace(0.1, 1.0, batch)[:, None, None]
            wanted, got = module(given), program.module()(given)
            error = (got - wanted).norm() / (wanted - wanted.mean()).norm()
            assert 1e-5 < error < 0.05, "int8 is neither exact nor far off"


def test_quantize_rounds_inputs_per_row_and_weights_per_output_channel() -> None:
    layer = torch.nn.Linear(2, 2, bias=False)
    layer.weight.data = torch.tensor([[1.27, -0.5], [0.0, 254.0]])
    x = torch.tensor([[2.54, -0.031], [127.0, 64.4]])
    with torch.no_grad():
        got = quantized(torch.export.export(layer.eval(), (x,))).module()(x)
    # rows: 127 and -2 (of -1.55) by 0.02; 127 and 64 by 1. Weights: 127 and -50 by 0.01; 0 and 127 by 2.
    # torchao's scale is the peak over 127.5
    scale = 127 / 127.5
    wanted = torch.tensor(
        [
            [(127 * 127 + 2 * 50) * 0.02 * 0.01, -2 * 127 * 0.02 * 2],
            [(127 * 127 - 64 * 50) * 0.01, 64 * 127 * 2.0],
        ]
    )
    torch.testing.assert_close(got, wanted * scale * scale, rtol=0.02, atol=1e-3)


def test_a_module_of_the_users_under_the_name_that_a_layer_would_get_stays() -> None:
    class Named(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 8)
            self.linear_module = torch.nn.LayerNorm(8)
            self.linear_module.weight.data = torch.arange(8.0)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear_module(self.layer(x))

    torch.manual_seed(5)
    module, x = Named().eval(), torch.randn(6, 8)
    with torch.no_grad():
        got = quantized(torch.export.export(module, (x,))).module()(x)
        torch.testing.assert_close(got, module(x), rtol=0.1, atol=0.2)


def test_pt2e_is_refused_on_another_processor_than_its_quantizer_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(FuseworksError, match="for x86-64, and this processor is aarch64") as caught:
        pt2e_quantized(two()[1])
    assert caught.value.id == "compiling:user:unsupported"


@pytest.mark.parametrize("flow", FLOWS)
def test_a_graph_without_linear_layers_is_refused(flow: str) -> None:
    class None_(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ x.T

    exported = torch.export.export(None_(), (torch.ones(3, 3),))
    with pytest.raises(FuseworksError, match="no linear layer with constant float32 weights") as caught:
        FLOWS[flow](exported)
    assert caught.value.id == "compiling:user:unsupported"


def test_it_warns_of_no_library_for_gpus() -> None:
    code = "from optimizer.compiling.torchao_int8 import without_warnings\nwith without_warnings(): import torchao"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (said.stdout, said.stderr) == ("", "")


def test_on_a_gpu_it_is_not_used() -> None:
    assert "used on the CPU only" in (BACKENDS.get("torchao").unavailable("cuda:sm_90") or "")


@pytest.mark.parametrize("precision", [None, {"precision": "int8", "keep_float32": {"last_linears": 1}}])
def test_another_precision_than_all_layers_in_int8_is_refused(
    builder: Builder, tmp_path: Path, precision: dict[str, object] | None
) -> None:
    with pytest.raises(FuseworksError, match="all linear layers in int8") as caught:
        builder.build("ranker", tmp_path, "torchao", precision=precision)
    assert caught.value.id == "compiling:user:unsupported"
