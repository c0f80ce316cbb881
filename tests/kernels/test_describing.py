"""What is told of a kernel to pages and programs that do not import it."""

from __future__ import annotations

import json
from typing import Any

import pytest

import kernels
from kernels import KERNELS, describing
from kernels.aot import report

kernels.load()

ROW: dict[str, Any] = {
    "kernel": "rms_norm",
    "dtype": "float32",
    "target": "cuda:sm_90",
    "launch": 0,
    "function": "_kernel",
    "sample": "8192x4096",
    "grid": [8192],
    "registers": 32,
    "spills": 2,
    "shared_bytes": 16,
    "shared_limit_bytes": 232448,
    "occupancy": 1.0,
    "blocks_per_sm": 8,
    "limited_by": "threads",
    "vector_loads": 4,
    "loads": {"128": 4, "32": 3},
    "tensor_core_instructions": 0,
    "bytes_in_flight": 10,
    "bytes_in_flight_wanted": 5,
    "call": {"bytes": 1, "flops": 1, "bound_us": 80.1, "bound_by": "memory"},
}
FIRST, SECOND = {**ROW, "configuration": "first"}, {**ROW, "configuration": "second", "spills": 0}


@pytest.fixture(autouse=True)
def read_anew():
    describing.compiled.cache_clear()
    describing._rows.cache_clear()
    yield
    describing.compiled.cache_clear()
    describing._rows.cache_clear()


def kept(monkeypatch: pytest.MonkeyPatch, *rows: dict[str, Any]) -> None:
    monkeypatch.setattr(report, "read", lambda: {"rows": list(rows)})


def test_the_untuned_configuration_is_told_with_every_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    kept(monkeypatch, FIRST, {**FIRST, "launch": 1, "spills": 0}, SECOND)
    told = describing.compiled()["rms_norm"]
    assert [(one["configuration"], one["launch"], one["spills"]) for one in told] == [("first", 0, 2), ("first", 1, 0)]
    assert (told[0]["loads"], told[0]["vector_loads"], told[0]["bound_us"]) == (7, 4, 80.1)
    assert (told[0]["exceptions"], told[1]["exceptions"]) == (["spills (2 instructions)"], [])


def test_each_dtype_and_target_has_an_untuned_configuration_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    kept(monkeypatch, FIRST, {**SECOND, "dtype": "bfloat16"}, {**SECOND, "target": "cuda:sm_80"})
    assert [one["configuration"] for one in describing.compiled()["rms_norm"]] == ["first", "second", "second"]


def test_what_does_not_compile_is_told_without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    head = ("kernel", "dtype", "target", "launch", "function", "sample", "configuration")
    kept(monkeypatch, {**{name: FIRST[name] for name in head}, "error": "no such type\nmore"})
    (one,) = describing.compiled()["rms_norm"]
    assert one["exceptions"] == ["does not compile: no such type"] and "registers" not in one


def test_without_a_kept_report_nothing_is_said_to_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "read", lambda: None)
    assert describing.described(KERNELS.get("rms_norm"))["resources"] == []


def test_the_cost_is_of_a_size_met_in_production() -> None:
    """8192 rows of 4096 float32: read and written once, beside the weight; four operations an element."""
    (found,) = [one for one in describing.cost(KERNELS.get("rms_norm")) if one["dtype"] == "float32"]
    assert found == {
        "dtype": "float32",
        "sample": "8192x4096",
        "bytes": 2 * 8192 * 4096 * 4 + 4096 * 4,
        "flops": 4 * 8192 * 4096,
    }


def test_every_kernel_of_the_library_is_plain_data_with_its_cost() -> None:
    for kernel in KERNELS:
        told = json.loads(json.dumps(describing.described(kernel)))
        assert [one["dtype"] for one in told["cost"]] == told["dtypes"]
        assert all(one["bytes"] > 0 for one in told["cost"])
