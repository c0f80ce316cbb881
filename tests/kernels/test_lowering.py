"""Fused operations in exported programs: saved, loaded elsewhere, lowered for a CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import kernels
from kernels.lowering import is_fused, lower_to_reference
from tests.kernels.processes import run_module

kernels.load()


class Residual(torch.nn.Module):
    """A Linear, then the fused operation, then something for a compiler to fuse with it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(24, 24)
        self.weight = torch.nn.Parameter(torch.randn(24))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        normed, total = torch.ops.fuseworks.add_rms_norm(self.linear(x), x, self.weight, 1e-6)
        return torch.nn.functional.gelu(normed) * 2, total


def exported(module: torch.nn.Module | None = None) -> torch.export.ExportedProgram:
    batch = torch.export.Dim("batch", min=1, max=64)
    with torch.no_grad():
        return torch.export.export((module or Residual()).eval(), (torch.randn(5, 24),), dynamic_shapes=({0: batch},))


def targets(program: torch.export.ExportedProgram) -> list[str]:
    return [str(n.target) for n in program.graph.nodes if n.op == "call_function"]


def test_lowering_leaves_no_fused_operation_and_touches_nothing_else() -> None:
    program = exported()
    lowered = lower_to_reference(program)
    assert not any(is_fused(n) for n in lowered.graph.nodes)
    assert targets(lowered)[0] == "aten.linear.default"
    assert "aten.gelu.default" in targets(lowered)
    for rows in (1, 3, 64):
        x = torch.randn(rows, 24)
        for got, want in zip(lowered.module()(x), program.module()(x), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)


def test_lowering_keeps_the_dynamic_batch() -> None:
    lowered = lower_to_reference(exported())
    assert [str(r) for r in lowered.range_constraints.values()] == ["VR[1, 64]"]


def test_a_program_without_fused_operations_is_handed_back_as_it_is() -> None:
    program = exported(torch.nn.Sequential(torch.nn.Linear(24, 24), torch.nn.BatchNorm1d(24)))
    assert lower_to_reference(program) is program


def test_a_saved_program_runs_in_a_new_process_that_loaded_the_kernels(tmp_path: Path) -> None:
    program, x = exported(), torch.linspace(-1, 1, 3 * 24).reshape(3, 24)
    torch.export.save(program, tmp_path / "fused.pt2")
    torch.save(x, tmp_path / "x.pt")
    run_module("tests.kernels.run_saved", str(tmp_path))
    for got, want in zip(torch.load(tmp_path / "y.pt"), program.module()(x), strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0)


def test_inductor_sees_one_fused_kernel_and_no_opaque_call() -> None:
    from torch._inductor import config
    from torch._inductor.utils import run_and_get_code

    program, x = exported(), torch.randn(5, 24)
    torch._dynamo.reset()
    with torch.no_grad(), config.patch(force_disable_caches=True):
        compiled = torch.compile(lower_to_reference(program).module())
        try:
            out, code = run_and_get_code(compiled, x)
        except Exception as error:  # torch has several classes for a missing compiler
            if "InvalidCxxCompiler" in f"{type(error).__name__} {error}":
                pytest.skip("there is no C++ compiler on this machine")
            raise
    text = "\n".join(code)
    assert "torch.ops.fuseworks" not in text
    assert text.count("async_compile.cpp_pybinding(") == 1
    torch.testing.assert_close(out[0], program.module()(x)[0], rtol=1e-5, atol=1e-5)
