"""What counts as a regression against the kept report."""

from __future__ import annotations

from typing import Any

import pytest

from kernels.aot.check import regressions
from kernels.aot.page import exceptions

GOOD: dict[str, Any] = {
    "spills": 0,
    "loads": {"128": 4, "32": 1},
    "vector_loads": 4,
    "blocks_per_sm": 8,
    "occupancy": 0.5,
    "limited_by": "registers",
    "shared_bytes": 1024,
    "shared_limit_bytes": 232_448,
    "registers": 64,
    "warps": 4,
    "tensor_core_instructions": 8,
    "bytes_in_flight": 2000,
    "bytes_in_flight_wanted": 1000,
    "call": {"bound_us": 1.0, "bound_by": "memory"},
}


def changed(**fields: Any) -> dict[str, Any]:
    return {**GOOD, **fields}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"spills": 2}, "spills: 2 instructions, before 0"),
        ({"loads": {"32": 17}, "vector_loads": 0}, "lost 128-bit loads"),
        ({"loads": {"128": 2, "64": 4}, "vector_loads": 2}, "lost 128-bit loads"),
        ({"blocks_per_sm": 0, "limited_by": "shared memory of one block"}, "does not launch, over the limit of shared"),
        ({"tensor_core_instructions": 0}, "uses tensor cores no more"),
    ],
)
def test_it_finds_what_became_worse(fields, text):
    (found,) = regressions(GOOD, changed(**fields))
    assert found.startswith(text)


def test_fewer_loads_of_the_same_width_are_no_loss():
    assert not list(regressions(GOOD, changed(loads={"128": 2}, vector_loads=2)))


def test_what_spilled_before_may_spill_as_much_and_no_more():
    before = changed(spills=5)
    assert not list(regressions(before, changed(spills=5)))
    assert list(regressions(before, changed(spills=6))) == ["spills: 6 instructions, before 5"]


def test_a_new_kernel_must_fit_and_must_not_spill():
    assert not list(regressions(None, GOOD))
    assert list(regressions(None, changed(spills=1))) == ["spills: 1 instructions, before 0"]
    assert list(regressions(None, {"error": "CompilationError: no\nmore"})) == [
        "does not compile: CompilationError: no"
    ]


def test_what_never_compiled_is_no_regression_and_what_does_not_any_more_is():
    broken = {"error": "no"}
    assert not list(regressions(broken, broken))
    assert list(regressions(GOOD, broken)) == ["does not compile: no"]
    assert not list(regressions(broken, GOOD))


def test_the_page_lists_what_one_would_not_want():
    assert not list(exceptions(GOOD))
    assert list(exceptions(changed(spills=3))) == ["spills (3 instructions)"]
    slow = changed(loads={"32": 8}, vector_loads=0, bytes_in_flight=250)
    assert list(exceptions(slow)) == [
        "memory-bound without 128-bit loads (8 of 32 bits)",
        "memory-bound with 25% of the bytes in flight that the bandwidth needs",
    ]
    assert not list(exceptions({**slow, "call": {"bound_us": 1.0, "bound_by": "compute"}}))
