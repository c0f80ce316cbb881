"""The operation table as data."""

from __future__ import annotations

import pytest

from optimizer.profiling.table import MAX_ROWS, attainable_share, joined, with_roofs
from optimizer.result import Operation, Profile

ROOFS = {"bandwidth_bytes_per_s": 1e9, "gemm_flops_per_s": {"float32": 1e11, "bfloat16": 4e11}}


def op(name: str = "linear", self_ms: float = 1.0, **fields: object) -> Operation:
    return Operation.model_validate({"op": name, "calls": 1, "self_ms": self_ms, "share": 0.0, **fields})


def test_equal_rows_become_one_and_their_work_adds_up():
    rows = joined([op(flops=10, bytes=3), op(self_ms=2.0, flops=10, bytes=3), op("relu", 5.0)])
    assert [(r.op, r.calls, r.self_ms, r.flops, r.bytes) for r in rows] == [
        ("relu", 1, 5.0, None, None),
        ("linear", 2, 3.0, 20, 6),
    ]
    assert [r.share for r in rows] == [0.625, 0.375]


def test_rows_that_differ_in_place_or_shape_stay_apart():
    assert (
        len(joined([op(module="a"), op(module="b"), op(module="a", shapes=[[1]]), op(module="a", source="m.py:3")]))
        == 4
    )


def test_a_long_tail_is_one_row_and_no_time_is_lost():
    rows = joined([op(f"op{i}", float(i + 1)) for i in range(MAX_ROWS + 3)])
    assert len(rows) == MAX_ROWS + 1
    assert rows[-1].op == "(3 smaller rows)"
    assert rows[-1].self_ms == 1 + 2 + 3
    assert sum(r.share for r in rows) == pytest.approx(1)


def test_an_empty_table_stays_empty():
    assert joined([]) == []


@pytest.mark.parametrize(
    ("fields", "share"),
    [
        ({"bytes": 500_000}, 0.5),  # 0.5 ms of memory in 1 ms
        ({"flops": 20_000_000}, 0.2),  # 0.2 ms of arithmetic
        ({"flops": 20_000_000, "bytes": 500_000}, 0.5),  # the slower of the two binds
        ({"flops": 40_000_000, "dtypes": ["bfloat16"]}, 0.1),
        ({"bytes": 2_000_000}, 2.0),  # out of a cache
        ({}, None),
    ],
)
def test_the_attainable_share_is_the_slower_roofs_time_over_the_time_taken(
    fields: dict[str, object], share: float | None
):
    assert attainable_share(op(**fields), ROOFS) == (pytest.approx(share) if share is not None else None)


def test_a_missing_roof_claims_nothing():
    assert attainable_share(op(flops=7), {"bandwidth_bytes_per_s": 1e9}) is None


def test_with_roofs_keeps_the_profile_and_records_the_roofs():
    before = Profile(operations=[op(bytes=500_000)], total_ms=1.0)
    after = with_roofs(before, ROOFS)
    assert after.operations[0].attainable_share == pytest.approx(0.5)
    assert (after.roofs, after.total_ms) == (ROOFS, 1.0)
    assert before.operations[0].attainable_share is None
