"""Two traces beside each other: rows that add up to the difference, each with what it explains."""

from __future__ import annotations

import pytest

from optimizer.diagnosing.traces import comparing
from optimizer.diagnosing.traces.comparing import ComparedRow, TraceComparison, compare
from optimizer.diagnosing.traces.document import RankTrace
from tests.optimizer.diagnosing.traces.building import Building
from tests.optimizer.diagnosing.traces.real import trace


def job(*works: tuple[str, str, float], gap: float = 0.0, steps: int = 1) -> RankTrace:
    """Work by work, each (operation, kernel, microseconds), then a gap in which the host is in no operation."""
    building, now = Building(), 1000.0
    for number in range(steps):
        building.step(number, now, 1000)
        for op, kernel, us in works:
            building.op(op, now - 60, 5)
            building.kernel(kernel, now, us, ahead=58)
            now += us
        building.kernel("gap", now + gap, 1, ahead=1)
        now += gap + 1
    return building.read()


def by_name(rows: list[ComparedRow]) -> dict[str, ComparedRow]:
    return {row.name: row for row in rows}


def adds_up(found: TraceComparison) -> None:
    assert sum(row.difference_ms for row in found.rows) == pytest.approx(found.difference_ms, abs=0.01)


def test_operations_are_matched_added_removed_and_changed() -> None:
    before = job(("aten::mm", "gemm", 100), ("aten::add", "add", 40), ("aten::copy_", "copy", 60))
    after = job(("aten::mm", "gemm", 50), ("aten::add", "add", 40), ("aten::gelu", "gelu", 30))
    found = compare([before], [after])
    rows = by_name(found.rows)
    assert {name: row.status for name, row in rows.items() if name.startswith("aten")} == {
        "aten::mm": "changed", "aten::add": "same", "aten::copy_": "removed", "aten::gelu": "added",
    }  # fmt: skip
    assert (found.base_step_ms, found.step_ms, found.difference_ms, found.by) == (0.201, 0.121, -0.08, "gpu")
    # 50 and 60 of the 80 us that were saved; 30 that were lost again
    assert (rows["aten::mm"].explains_share, rows["aten::copy_"].explains_share) == (0.625, 0.75)
    assert rows["aten::gelu"].explains_share == -0.375
    adds_up(found)


def test_idle_time_is_a_row_by_its_cause() -> None:
    work = ("aten::mm", "gemm", 100.0)
    found = compare([job(work)], [job(work, gap=200)])
    row = by_name(found.rows)["(idle: host other)"]
    assert (row.difference_ms, row.explains_share) == (pytest.approx(0.199, abs=0.002), pytest.approx(1, abs=0.02))
    assert found.rows[0] is row  # the largest first
    adds_up(found)


def test_times_are_of_one_step() -> None:
    work = ("aten::mm", "gemm", 100.0)
    found = compare([job(work, steps=2)], [job(work, steps=5)])
    assert by_name(found.rows)["aten::mm"].calls == 1
    assert abs(found.difference_ms) < 0.001
    assert {row.explains_share for row in found.rows} == {None}  # there is nothing to explain


def test_kernels_side_by_side_are_not_counted_twice() -> None:
    one, other = Building(), Building()
    for building, stream in ((one, 7), (other, 20)):
        building.kernel("a", 100, 100)
        building.kernel("b", 100 if stream == 20 else 200, 100, stream=stream)
    found = compare([one.read()], [other.read()])
    assert (found.base_step_ms, found.step_ms) == (0.2, 0.1)
    assert by_name(found.rows)["(side by side on the GPU)"].difference_ms == -0.1
    assert [(row.name, row.status) for row in found.kernels] == [("a", "same"), ("b", "same")]


def test_without_a_gpu_the_hosts_own_time_is_compared() -> None:
    one, other = Building(), Building()
    one.op("aten::linear", 0, 100)
    one.op("aten::addmm", 10, 60)
    other.op("aten::linear", 0, 50)
    other.op("aten::addmm", 10, 20)
    found = compare([one.read()], [other.read()])
    assert (found.by, found.base_step_ms, found.step_ms) == ("host", 0.1, 0.05)
    assert {row.name: row.difference_ms for row in found.rows} == {"aten::linear": -0.01, "aten::addmm": -0.04}


def test_of_several_ranks_it_is_the_mean() -> None:
    ranks = [job(("aten::mm", "gemm", us)) for us in (100.0, 200.0)]
    found = compare(ranks, [job(("aten::mm", "gemm", 150.0))])
    assert by_name(found.rows)["aten::mm"].difference_ms == 0


def test_rows_beyond_the_limit_are_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "MAX_ROWS", 5)
    found = compare([job(("a", "gemm", 10.0))], [job(*((f"op{at}", "k", 10.0 + at) for at in range(20)))])
    assert len(found.rows) == 5
    assert found.rows[-1].name.endswith("further ones)")
    adds_up(found)


def test_before_and_after_the_data_loader_got_workers() -> None:
    """Real traces: 996.5 ms against 801.5 ms for six steps; nearly all of it is what the GPU waited for data."""
    found = compare([trace("resnet50_workers0")], [trace("resnet50_workers4")])
    assert found.difference_ms == pytest.approx((801.5 - 996.5) / 6, abs=0.1)
    assert found.rows[0].name == "(idle: data loading)"
    assert (found.rows[0].explains_share or 0) > 0.9
    adds_up(found)


def test_a_v100_and_an_a100_are_matched_by_operation_where_kernels_have_other_names() -> None:
    found = compare([trace("torchrec_v100_test")], [trace("torchrec_a100_control")])
    rows = by_name(found.rows)
    assert rows["aten::copy_"].status == "changed" and rows["aten::copy_"].difference_ms < 0
    assert (rows["aten::copy_"].base_calls, rows["aten::copy_"].calls) == (872, 74)
    assert by_name(found.kernels)["volta_sgemm_128x32_nt"].status == "removed"
    adds_up(found)
