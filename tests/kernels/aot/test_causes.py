"""Why a compiled kernel has an exception: each cause by hand, and every exception of the kept report."""

from __future__ import annotations

from typing import Any

import pytest

import kernels
from kernels import KERNELS, describing
from kernels.aot import report
from kernels.aot.causes import BECAUSE, KINDS, UNTOLD, Explained, explained, register_limit
from kernels.aot.devices import H100, MI300X

kernels.load()

ROW: dict[str, Any] = {
    "kernel": "rms_norm",
    "configuration": "ROWS=1 COLUMNS=4096 warps=8 stages=2",
    "dtype": "float32",
    "target": "cuda:sm_90",
    "launch": 0,
    "function": "_kernel",
    "grid": [8192],
    "registers": 32,
    "spills": 0,
    "stack_bytes": 0,
    "shared_bytes": 1024,
    "shared_limit_bytes": 232_448,
    "warps": 8,
    "occupancy": 1.0,
    "blocks_per_sm": 8,
    "limited_by": "threads",
    "loads": {"128": 4},
    "vector_loads": 4,
    "tensor_core_instructions": 0,
    "bytes_in_flight": 2_000_000,
    "bytes_in_flight_wanted": 905_040,
    "call": {"bound_us": 80.0, "bound_by": "memory"},
}


def only(*, products: bool = False, **changed: Any) -> Explained:
    (found,) = explained({**ROW, **changed}, products=products)
    return found


def test_a_kernel_without_exceptions_needs_no_cause() -> None:
    assert list(explained(ROW, products=True)) == []


def test_float32_products_that_spill_run_on_the_vector_units() -> None:
    found = only(products=True, spills=900, registers=32)
    assert (found.kind, found.cause) == ("spills", "float32_products")
    assert "more than the 255 of a thread" in only(products=True, spills=900, warps=8).because


def test_what_spills_at_the_limit_of_its_registers_is_told_the_limit() -> None:
    found = only(spills=3, registers=255, dtype="bfloat16")
    assert (found.cause, found.facts) == ("register_limit", {"limit": 255, "warps": 8})


def test_what_spills_below_the_limit_is_the_assemblers_doing() -> None:
    found = only(spills=2, registers=64, stack_bytes=8)
    assert found.because == (
        "the assembler keeps 8 bytes of a thread on its stack although registers are left (64 of 255)"
    )


def test_scalar_registers_of_amd_touch_no_memory() -> None:
    assert only(target="rocm:gfx942", spills=10, registers=210, warps=4).cause == "scalar_registers"


def test_the_limit_of_registers_follows_the_size_of_a_block() -> None:
    """An H100 has 65,536 a multiprocessor and at most 255 a thread; an MI300X 131,072 and 512."""
    assert [register_limit(H100, warps) for warps in (4, 16, 32)] == [255, 128, 64]
    assert [register_limit(MI300X, warps) for warps in (4, 8)] == [512, 256]


def test_too_much_shared_memory_is_told_with_what_there_is() -> None:
    found = only(blocks_per_sm=0, shared_bytes=300_000)
    assert found.because == "its tiles take 300000 bytes of shared memory of a block, 232448 are there"


def test_a_thread_with_a_small_part_of_the_tile_cannot_load_128_bits() -> None:
    """512 elements of two bytes on 4 × 32 threads are 8 bytes each."""
    narrow = {"loads": {"64": 1}, "vector_loads": 0, "configuration": "BLOCK=512 warps=4 stages=2", "warps": 4}
    found = only(**narrow, dtype="float16")
    assert (found.kind, found.cause) == ("narrow_loads", "small_tile")
    assert found.because.startswith("a thread's part of the tile is 8 bytes") and "on 128 threads" in found.because
    assert only(**narrow, dtype="float32").cause == UNTOLD  # 16 bytes would do


def test_what_does_not_compile_must_be_told_by_a_person() -> None:
    head = {name: ROW[name] for name in ("kernel", "configuration", "dtype", "target", "launch", "function")}
    (found,) = explained({**head, "error": "no"}, products=False)
    assert (found.kind, found.cause) == ("does_not_compile", UNTOLD)


def test_one_block_that_adds_up_is_told_apart_from_a_small_grid() -> None:
    assert only(bytes_in_flight=10_000, grid=[1], launch=1).cause == "single_block"
    few = only(bytes_in_flight=500_000, grid=[500])  # 1,000 bytes a block; 8 × 132 blocks are resident
    assert few.because == ("at this size there are 500 blocks; the device holds 1056 at once, which would be enough")


def test_resident_blocks_that_would_not_be_enough_are_told_what_limits_them() -> None:
    """4 × 132 blocks of 1,000 bytes are 528,000; twice as many threads could be resident."""
    found = only(bytes_in_flight=528_000, blocks_per_sm=4, occupancy=0.5, limited_by="registers")
    assert (found.cause, found.facts) == ("occupancy", {"limited_by": "registers", "share": 50})


def test_too_little_asked_for_by_each_thread_is_told_with_what_is_wanted() -> None:
    """8 × 132 blocks of 256 threads at 2 bytes: 905,040 / 270,336 threads, rounded up, are wanted."""
    found = only(bytes_in_flight=8 * 132 * 256 * 2)
    assert (found.cause, found.facts) == ("little_per_thread", {"thread_bytes": "2", "wanted_bytes": 4})


def test_compute_bound_kernels_need_no_bytes_in_flight() -> None:
    call = {"bound_us": 80.0, "bound_by": "compute"}
    assert list(explained({**ROW, "bytes_in_flight": 1, "vector_loads": 0, "call": call}, products=False)) == []


KEPT = report.read() or {"rows": []}


@pytest.mark.parametrize("name", KERNELS.names())
def test_every_exception_of_the_report_is_explained(name: str) -> None:
    """By its figures, or by the kernel's own file where they do not show why; and no reason is left over."""
    kernel = KERNELS.get(name)
    found = describing.exceptions_of(kernel, [row for row in KEPT["rows"] if row["kernel"] == name])
    silent = [entry["kind"] for entry in found if entry["cause"] == UNTOLD and not entry["reason"]]
    assert not silent, f"{name}: say in `reasons` why {silent}"
    assert set(kernel.reasons) <= {entry["kind"] for entry in found} & set(KINDS)


def test_exceptions_are_put_together_by_cause() -> None:
    rows = [{**ROW, "spills": 2, "stack_bytes": 8, "dtype": dtype} for dtype in ("float16", "bfloat16")]
    (entry,) = describing.exceptions_of(KERNELS.get("rms_norm"), rows)
    assert (entry["kind"], entry["cause"]) == ("spills", "assembler")
    assert [place["dtype"] for place in entry["places"]] == ["float16", "bfloat16"]
    assert entry["places"][0]["facts"] == {"stack_bytes": 8, "registers": 32, "limit": 255}


def test_products_are_seen_in_a_kernels_own_code() -> None:
    told = {name: describing._multiplies(KERNELS.get(name), "_kernel") for name in ("int8_linear", "rms_norm")}
    assert told == {"int8_linear": True, "rms_norm": False}


def test_each_cause_has_a_text() -> None:
    assert all(text == text.strip() and text for text in BECAUSE.values())


def test_on_every_target_each_dtype_has_a_configuration_that_fits_and_does_not_spill() -> None:
    clean: dict[tuple[str, str, str], dict[str, bool]] = {}
    for row in KEPT["rows"]:
        options = clean.setdefault((row["kernel"], row["dtype"], row["target"]), {})
        fits = "error" not in row and row["blocks_per_sm"] > 0 and not row["spills"]
        options[row["configuration"]] = options.get(row["configuration"], True) and fits
    assert clean
    assert [place for place, options in clean.items() if not any(options.values())] == []
