"""The span in equal bins: each is what the GPU did in it, and why it did nothing."""

from __future__ import annotations

import pytest

from optimizer.diagnosing.traces.document import BINS, Timeline
from tests.optimizer.diagnosing.traces.building import Building
from tests.optimizer.diagnosing.traces.training import NCCL, Training


def timeline(job: Building) -> Timeline:
    found = job.read().timeline
    assert found is not None
    return found


def halves(values: list[float]) -> tuple[float, float]:
    """Mean of the first half of the bins, and of the second."""
    middle = BINS // 2
    return round(sum(values[:middle]) / middle, 3), round(sum(values[middle:]) / middle, 3)


def test_work_lies_where_it_ran_and_a_gap_where_it_was() -> None:
    job = Building()
    job.kernel("first", 0, 600)
    job.kernel("second", 1199, 1, ahead=1190)  # launched before: it waited in the queue from 600 to 1199
    found = timeline(job)
    assert found.bin_ms == pytest.approx(0.01)
    assert halves(found.compute) == pytest.approx((1.0, 1 / 600), abs=0.001)
    assert halves(found.idle["queued"]) == pytest.approx((0.0, 599 / 600), abs=0.001)
    assert [round(value, 2) for value in found.compute[:60]] == [1.0] * 60


def test_communication_is_told_where_no_other_kernel_covers_it() -> None:
    job = Building()
    job.kernel(NCCL, 0, 600)
    job.kernel("gemm", 300, 300, stream=9)
    job.copy("HtoD (Pinned -> Device)", 600, 600)
    found = timeline(job)
    assert halves(found.communication) == (0.5, 0.0)
    assert halves(found.compute) == (0.5, 0.0)
    assert halves(found.copies) == (0.0, 1.0)


def test_every_bin_of_a_training_adds_up() -> None:
    found = timeline(Training().run())
    parts = [found.compute, found.communication, found.copies, *found.idle.values()]
    assert len(found.compute) == BINS
    assert [sum(column) for column in zip(*parts, strict=True)] == pytest.approx([1.0] * BINS, abs=0.006)


def test_its_bins_add_up_to_the_facts() -> None:
    rank = Training().run().read()
    found = rank.timeline
    assert found is not None
    assert sum(found.idle["launching"]) * found.bin_ms == pytest.approx(rank.idle.launching_ms, abs=0.1)
    assert sum(found.communication) * found.bin_ms == pytest.approx(rank.exposed_ms, abs=0.1)
    assert found.bin_ms * BINS == pytest.approx(rank.span_ms)


def test_there_is_none_without_a_gpu_and_none_of_a_moment() -> None:
    job = Building()
    job.op("aten::mm", 0, 10)
    assert job.read().timeline is None
    job.kernel("empty", 50, 0)
    assert job.read().timeline is None
