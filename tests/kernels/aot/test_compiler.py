"""Real compilations for GPUs that are not there, of kernels whose outcome a person can foretell."""

from __future__ import annotations

import importlib.util

import pytest
import torch

pytest.importorskip("triton")

from kernels.aot import compiler
from kernels.aot.devices import A100, DEVICES, H100, MI300X, Device
from kernels.aot.resources import resources
from tests.kernels.aot import probes


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def compiled(device: Device, function: object, *args: object, warps: int = 4, stages: int = 2, **const: int):
    source = compiler.source_of(function, args, const, warps, stages)
    return resources(compiler.compile_source(source, device), device)


@pytest.mark.parametrize("device", DEVICES, ids=lambda d: d.architecture)
def test_a_copy_of_aligned_rows_loads_128_bits_at_once(device):
    found = compiled(device, probes.copy, meta(4096), meta(4096), 4096, BLOCK=1024)
    # 1024 floats by 4 warps of 32: 8 each, two loads of four; AMD's warps have 64 lanes: one load of four
    assert found.loads == {"128": 2 if device.warp_size == 32 else 1}
    assert found.vector_stores == found.vector_loads
    assert found.spills == 0 and found.launches


def test_vectors_are_lost_where_16_does_not_divide_the_bound():
    found = compiled(H100, probes.copy, meta(4096), meta(4096), 4095, BLOCK=1024)
    assert found.vector_loads == 0
    assert found.loads == {"32": 8}


def test_vectors_are_lost_where_a_view_begins_off_16_bytes():
    whole = meta(4100)
    found = compiled(H100, probes.copy, whole[1:], meta(4096), 4096, BLOCK=1024)
    assert found.vector_loads == 0 and found.vector_stores == 2
    assert compiled(H100, probes.copy, whole[4:], meta(4096), 4096, BLOCK=1024).vector_loads == 2


@pytest.mark.parametrize("device", [A100, H100, MI300X], ids=lambda d: d.architecture)
def test_a_row_that_does_not_fit_into_registers_spills(device):
    # 32768 floats by one warp: 1024 (512 on AMD) values a lane, and a lane has 255 (512) registers at most
    found = compiled(device, probes.centre, meta(32768), meta(32768), warps=1, BLOCK=32768)
    assert found.spills > 0 and found.stack_bytes > 0
    # by 16 warps: 64 (32) values a lane
    assert compiled(device, probes.centre, meta(32768), meta(32768), warps=16, BLOCK=32768).spills == 0


def test_a_kernel_over_the_shared_memory_limit_compiles_without_a_word_and_does_not_launch():
    half = torch.float16
    a, b, c = meta(256, 1024, dtype=half), meta(1024, 256, dtype=half), meta(256, 256)
    found = compiled(H100, probes.product, a, b, c, 1024, warps=8, stages=4, BM=256, BN=256, BK=128)
    # tiles of 2 × 256 × 128 halves are 128 KiB, and three of them or more are under way
    assert found.shared_bytes >= 3 * (128 << 10) > found.shared_limit_bytes == 232_448
    assert not found.launches and found.limited_by == "shared memory of one block"
    small = compiled(H100, probes.product, a, b, c, 1024, warps=4, stages=2, BM=64, BN=64, BK=32)
    assert small.launches and small.tensor_core_instructions > 0


def test_float32_products_on_the_a100_use_tensor_cores_too():
    found = compiled(A100, probes.product, meta(64, 256), meta(256, 64), meta(64, 64), 256, BM=64, BN=64, BK=32)
    assert found.tensor_core_instructions > 0


def test_what_a_number_is_decides_what_the_compiler_sees():
    source = compiler.source_of(probes.copy, (meta(8), None, 1), {"BLOCK": 8}, 4, 2)
    assert dict(source.signature) == {"x_ptr": "*fp32", "y_ptr": "constexpr", "n": "constexpr", "BLOCK": "constexpr"}
    assert dict(source.constants) == {"y_ptr": None, "n": 1, "BLOCK": 8}
    wide = compiler.source_of(probes.copy, (meta(8, dtype=torch.bfloat16), meta(8), 2**31), {"BLOCK": 8}, 4, 2)
    assert dict(wide.signature)["x_ptr"] == "*bf16" and dict(wide.signature)["n"] == "i64"
    assert list(wide.aligned) == ["x_ptr", "y_ptr", "n"]


def test_a_constant_without_a_value_is_refused_before_compiling():
    with pytest.raises(ValueError, match="copy is given no value for BLOCK"):
        compiler.source_of(probes.copy, (meta(8), meta(8), 8), {}, 4, 2)


def test_the_identity_changes_with_what_the_compiler_sees_and_with_nothing_else():
    def identity(n: int, warps: int = 4) -> str:
        return compiler.identity(compiler.source_of(probes.copy, (meta(8), meta(8), n), {"BLOCK": 8}, warps, 2))

    assert identity(4096) == identity(1024)  # both are 32-bit numbers that 16 divides
    assert identity(4096) != identity(4095)
    assert identity(4096) != identity(4096, warps=8)


def test_the_identity_is_the_same_on_another_line_and_another_with_other_text(tmp_path):
    def identity(name: str, above: str, value: str) -> str:
        text = f"import triton\nimport triton.language as tl\n{above}\n@triton.jit\ndef fill(x_ptr):\n"
        (tmp_path / f"{name}.py").write_text(f"{text}    tl.store(x_ptr, {value})\n")
        spec = importlib.util.spec_from_file_location(name, tmp_path / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return compiler.identity(compiler.source_of(module.fill, (meta(8),), {}, 4, 2))

    assert identity("here", "", "1.0") == identity("lower", "import math\nimport os\n", "1.0")
    assert identity("one", "", "1.0") != identity("two", "", "2.0")


def test_it_says_what_is_missing_and_how_to_mend_it(monkeypatch):
    monkeypatch.setattr(compiler, "_tool", lambda name: None if name == "ptxas" else name)
    reason = compiler.why_unavailable("cuda:sm_90")
    assert reason == "ptxas cannot be found: reinstall triton, whose wheel brings them (`make setup`)"
    source = compiler.source_of(probes.copy, (meta(8), meta(8), 8), {"BLOCK": 8}, 4, 2)
    with pytest.raises(compiler.Unavailable, match="ptxas cannot be found"):
        compiler.compile_source(source, H100)


def test_a_version_that_nobody_checked_is_not_trusted(monkeypatch):
    monkeypatch.setattr(compiler, "CHECKED_VERSIONS", ("0.1",))
    assert "was not checked: install triton 0.1" in str(compiler.why_unavailable("cuda:sm_90"))


def test_a_process_that_interprets_does_not_compile(monkeypatch):
    import triton

    monkeypatch.setattr(triton.knobs.runtime, "interpret", True)
    assert str(compiler.why_unavailable("rocm:gfx942")).startswith("this process interprets Triton")


def test_what_the_compiler_refuses_is_told_and_costs_the_others_nothing():
    wrong = compiler.source_of(probes.copy, (meta(8), meta(8), 8), {"BLOCK": 12}, 4, 2)  # no power of two
    right = compiler.source_of(probes.copy, (meta(8), meta(8), 8), {"BLOCK": 16}, 4, 2)
    refused, built = compiler.compile_sources([wrong, right], H100)
    assert isinstance(refused, compiler.DoesNotCompile) and "power of 2" in str(refused)
    assert isinstance(built, compiler.Compiled) and built.binary.startswith(b"\x7fELF")


def test_many_at_once_read_as_each_alone():
    sources = [
        compiler.source_of(probes.copy, (meta(4096), meta(4096), 4096), {"BLOCK": 1024}, 4, 2),
        compiler.source_of(probes.centre, (meta(2048), meta(2048)), {"BLOCK": 2048}, 4, 2),
    ]
    together = compiler.compile_sources(sources, H100)
    assert together == [compiler.compile_source(source, H100) for source in sources]
    first, second = together
    assert isinstance(first, compiler.Compiled) and isinstance(second, compiler.Compiled)
    assert first.code.mix.get("shuffle", 0) == 0 < second.code.mix["shuffle"]


def test_without_triton_it_says_where_there_is_one(monkeypatch):
    monkeypatch.setattr(compiler.importlib.util, "find_spec", lambda name: None)
    assert str(compiler.why_unavailable("cuda:sm_90")).startswith("triton is not installed: it has wheels for Linux")
