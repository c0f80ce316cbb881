"""On a CPU a fused operation costs nothing: Inductor makes the same kernels of it as of what the user wrote."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import kernels
from kernels.lowering import lower_to_reference
from tests.optimizer.optimizing.support import BATCH, count, export, rewrite
from tests.optimizer.optimizing.truth import Calls

kernels.load()
INPUTS = (torch.randn(4, 8, generator=torch.Generator().manual_seed(0)),) * 3


def gates_and_norms(x: torch.Tensor, up: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    total = F.silu(x) * up + x
    return F.gelu(F.layer_norm(total, (8,))) + F.rms_norm(shift, (8,), None, 1e-6)


def pairs_and_pooling(x: torch.Tensor, up: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    fields = torch.stack([x, up, shift], 1)
    pairs = 0.5 * (fields.sum(1).square() - fields.square().sum(1)).sum(1, keepdim=True)
    gate = torch.softmax(x[:, :3], -1).unsqueeze(-1)
    return (gate * fields).sum(1) + pairs


@pytest.mark.slow
@pytest.mark.parametrize(("function", "fused"), [(gates_and_norms, 3), (pairs_and_pooling, 2)], ids=["norms", "sums"])
def test_the_generated_code_holds_as_many_kernels_and_no_opaque_call(function, fused) -> None:
    model = Calls(lambda _, *args: function(*args))
    exported = export(model, *INPUTS, dims={"args": ({0: BATCH},) * 3})
    result, graph = rewrite(exported, "fuse_operations")
    assert len(result.applied) == fused
    assert sum(count(graph, kernel.op) for kernel in kernels.KERNELS) == fused
    ours, theirs = generated(lower_to_reference(graph.to_exported())), generated(exported)
    assert "fuseworks" not in ours
    for start in ("async_compile.cpp_pybinding(", "extern_kernels.", "torch.ops."):
        assert ours.count(start) <= theirs.count(start), start


def generated(program: torch.export.ExportedProgram) -> str:
    from torch._inductor import config
    from torch._inductor.utils import run_and_get_code

    torch._dynamo.reset()
    with torch.no_grad(), config.patch(force_disable_caches=True):
        try:
            _, code = run_and_get_code(torch.compile(program.module()), *INPUTS)
        except Exception as error:  # torch has several classes for a missing compiler
            if "InvalidCxxCompiler" in f"{type(error).__name__} {error}":
                pytest.skip("there is no C++ compiler on this machine")
            raise
    return "\n".join(code)
