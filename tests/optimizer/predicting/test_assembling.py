"""Operations of our library in a lowered graph, assembled without lowering one."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

import kernels
from kernels.aot.compiler import DoesNotCompile
from kernels.aot.devices import H100
from optimizer.predicting import assembling
from optimizer.predicting.inductor.lowering import Lowered
from optimizer.predicting.inductor.replay import Called, Replayed

ROWS, WIDTH = 512, 256


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def called(dtype: torch.dtype = torch.float32) -> Called:
    kernels.load()
    x, weight = meta(ROWS, WIDTH, dtype=dtype), meta(WIDTH, dtype=dtype)
    args = (x, meta(ROWS, WIDTH, dtype=dtype), weight, 1e-6)
    tensors = [args[0], args[1], weight, meta(ROWS, WIDTH, dtype=dtype), meta(ROWS, WIDTH, dtype=dtype)]
    return Called(torch.ops.fuseworks.add_rms_norm.default, args, {}, tensors, 0)


def assembled(tmp_path, *steps: Called):
    lowered = Lowered("", [], {}, {}, [], 0.0)
    return assembling.Assembler(H100, tmp_path).assemble(lowered, Replayed(list(steps)))


def test_the_same_call_twice_is_one_kernel_with_two_launches(tmp_path):
    found = assembled(tmp_path, called(), called())
    (kernel,) = found.kernels
    assert kernel.launches == found.kernels_launched == 2
    assert kernel.bytes == 2 * 4 * (4 * ROWS * WIDTH + WIDTH)
    assert kernel.bound_us == pytest.approx(1e6 * kernel.bytes / H100.memory_bytes_per_s)


def test_what_does_not_compile_for_the_target_is_bounded_and_noted(tmp_path, monkeypatch):
    monkeypatch.setattr(
        assembling, "compile_sources", lambda sources, _: [DoesNotCompile("no layout\nmore") for _ in sources]
    )
    found = assembled(tmp_path, called())
    (call,) = found.extern_calls
    assert call.name == "fuseworks.add_rms_norm.default" and not found.kernels
    assert call.bytes == 4 * (4 * ROWS * WIDTH + WIDTH)
    assert found.notes == ["fuseworks.add_rms_norm.default has no resources here: no layout"]


def test_in_float64_the_operation_is_its_reference_and_no_kernel_of_ours(tmp_path):
    found = assembled(tmp_path, called(torch.float64))
    assert not found.kernels and len(found.extern_calls) == 1 and not found.notes
