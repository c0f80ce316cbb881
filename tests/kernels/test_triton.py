"""Every kernel's Triton code under the interpreter, against float64; and the corrections of the interpreter."""

from __future__ import annotations

import json
from typing import Any

import pytest

import kernels
from tests.kernels.processes import run_module

kernels.load()
CASES = [
    (kernel.name, str(dtype), sample.name)
    for kernel in kernels.KERNELS
    for dtype in kernel.tolerances
    for sample in kernel.samples(dtype) + kernel.edges(dtype)
]


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    pytest.importorskip("triton")
    return [json.loads(line) for line in run_module("tests.kernels.under_interpreter", interpret=True).splitlines()]


@pytest.fixture(scope="module")
def interpreted(lines: list[dict[str, Any]]) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {(line["kernel"], line["dtype"], line["sample"]): line for line in lines if "sample" in line}


@pytest.mark.parametrize(("kernel", "dtype", "sample"), CASES)
def test_the_triton_kernel_equals_the_float64_reference(
    interpreted: dict[tuple[str, str, str], dict[str, Any]], kernel: str, dtype: str, sample: str
) -> None:
    line = interpreted[kernel, dtype, sample]
    assert line["excess"] <= line["allowed"]
    assert line["canaries_intact"], "a store or load went past the end of a buffer"
    assert line["inputs_unchanged"]


def test_each_sample_ran_once_under_the_interpreter(interpreted: dict[tuple[str, str, str], dict[str, Any]]) -> None:
    assert sorted(interpreted) == sorted(CASES)


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
    built = json.loads(run_module("tests.kernels.for_absent_gpu"))
    assert {b["kernel"] for b in built} == set(kernels.KERNELS.names())
    for b in built:
        assert b["cubin_bytes"] > 0
        assert "st.global" in b["stores"], b
        assert b["float64_instructions"] == 0, "a scalar dragged the row into float64"
