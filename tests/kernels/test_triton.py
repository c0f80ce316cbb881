"""Every kernel's Triton code under the interpreter, against float64; and the corrections of the interpreter."""

from __future__ import annotations

import json
from typing import Any

import pytest

import kernels
from tests.kernels.processes import run_module

kernels.load()
Case = tuple[str, str, str, str]
CASES = [
    (kernel.name, str(dtype), sample.name, configuration.name)
    for kernel in kernels.KERNELS
    for dtype in kernel.tolerances
    for sample in kernel.samples(dtype) + kernel.edges(dtype)
    for configuration in kernel.configurations(*sample.args)
]


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    pytest.importorskip("triton")
    printed = run_module("tests.kernels.under_interpreter", interpret=True, timeout_s=900)
    return [json.loads(line) for line in printed.splitlines()]


@pytest.fixture(scope="module")
def interpreted(lines: list[dict[str, Any]]) -> dict[Case, dict[str, Any]]:
    found = [line for line in lines if "sample" in line]
    return {(line["kernel"], line["dtype"], line["sample"], line["configuration"]): line for line in found}


@pytest.mark.parametrize("kernel", kernels.KERNELS.names())
def test_the_triton_kernel_equals_the_float64_reference(interpreted: dict[Case, dict[str, Any]], kernel: str) -> None:
    """In every dtype, sample and configuration."""
    for case, line in interpreted.items():
        if case[0] == kernel:
            assert line["fault"] is None, case


def test_each_case_ran_once_under_the_interpreter(interpreted: dict[Case, dict[str, Any]]) -> None:
    assert sorted(interpreted) == sorted(CASES)
    assert len(set(CASES)) == len(CASES)


def test_the_canaries_catch_a_kernel_that_writes_one_row_too_many(lines: list[dict[str, Any]]) -> None:
    (control,) = [line for line in lines if line["kernel"] == "control"]
    assert control["canaries_intact"] is False


@pytest.fixture(scope="module")
def corrections(lines: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = [line for line in lines if line["kernel"] == "corrections"]
    return found


@pytest.mark.parametrize("case", ["add", "greater", "dot", "round", "round_rtne", "truncate", "fma", "constant"])
def test_bfloat16_is_right_once_the_interpreter_is_mended(corrections: dict[str, Any], case: str) -> None:
    assert corrections["after"][case] == "right"


@pytest.mark.parametrize("case", ["add", "greater", "dot", "round", "round_rtne", "fma", "constant"])
def test_the_correction_is_still_needed(corrections: dict[str, Any], case: str) -> None:
    assert corrections["before"][case] != "right", "this Triton computes it itself: remove the correction"


def test_bfloat16_atomics_are_refused(corrections: dict[str, Any]) -> None:
    assert "accumulate in float32" in corrections["atomic"]


def test_the_corrections_refuse_a_process_that_does_not_interpret() -> None:
    pytest.importorskip("triton")
    from kernels import interpreter

    with pytest.raises(RuntimeError, match="TRITON_INTERPRET=1"):
        interpreter.install()


def test_every_kernel_compiles_for_a_gpu_that_is_not_there() -> None:
    pytest.importorskip("triton")
    printed = run_module("tests.kernels.for_absent_gpu", timeout_s=900)
    built = [json.loads(line) for line in printed.splitlines()]
    assert {b["kernel"] for b in built} == set(kernels.KERNELS.names())
    for b in built:
        assert b["cubin_bytes"] > 0
        assert b["stores"], b
        assert b["float64_instructions"] == 0, f"{b['kernel']}: a scalar dragged the row into float64"
