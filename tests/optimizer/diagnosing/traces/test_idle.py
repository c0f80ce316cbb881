"""Each stretch in which no GPU works has one cause, by what the host did meanwhile."""

from __future__ import annotations

import pytest

from optimizer.diagnosing.traces.document import Idle, RankTrace
from tests.optimizer.diagnosing.traces.building import Building


def gap(*, launched: float, **more: object) -> Building:
    """A kernel 0-100, nothing until 300, another one 300-400 whose launch begins at `launched`."""
    job = Building()
    job.kernel("first", 0, 100)
    job.kernel("second", 300, 100, ahead=300 - launched, **more)  # type: ignore[arg-type]
    return job


def causes(rank: RankTrace) -> dict[str, float]:
    """In microseconds, those that are there."""
    return {name.removesuffix("_ms"): round(ms * 1000, 3) for name, ms in rank.idle.model_dump().items() if ms}


def test_work_that_was_launched_before_waits_in_the_queue() -> None:
    assert causes(gap(launched=50).read()) == {"queued": 200}


def test_from_the_launch_on_it_is_the_launch() -> None:
    assert causes(gap(launched=290).read()) == {"host_other": 190, "launching": 10}


def test_a_host_in_operations_is_behind_with_them() -> None:
    job = gap(launched=290)
    job.op("aten::relu", 110, 100)
    job.op("aten::empty", 120, 10)  # inside the other
    assert causes(job.read()) == {"host_operations": 100, "host_other": 90, "launching": 10}


def test_calls_of_the_runtime_are_operations_too() -> None:
    job = gap(launched=290)
    job.call("cudaMalloc", 150, 60)
    assert causes(job.read()) == {"host_operations": 60, "host_other": 130, "launching": 10}


def test_annotations_are_no_work() -> None:
    job = gap(launched=290)
    job.add("Operator", "ProfilerStep#3", 0, 400)
    job.add("Operator", "Optimizer.step#SGD.step", 0, 400)
    assert causes(job.read()) == {"host_other": 190, "launching": 10}


def test_another_threads_operations_do_not_count() -> None:
    job = gap(launched=290)
    job.op("aten::stack", 100, 190, tid=999)
    assert causes(job.read()) == {"host_other": 190, "launching": 10}


def test_a_data_loader_goes_before_all_else() -> None:
    job = gap(launched=290)
    job.add("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 120, 100)
    job.op("aten::stack", 110, 150)
    assert causes(job.read()) == {"data_loading": 100, "host_operations": 50, "host_other": 40, "launching": 10}


def test_after_the_host_waited_for_the_gpu_it_begins_anew() -> None:
    job = gap(launched=290)
    job.call("cudaStreamSynchronize", 20, 85)  # the kernel ends at 100, the call at 105
    job.op("aten::relu", 110, 100)
    assert causes(job.read()) == {"synchronization": 190, "launching": 10}


def test_a_wait_that_was_over_before_is_not_the_cause() -> None:
    job = gap(launched=290)
    job.call("cudaStreamSynchronize", 20, 60)
    assert causes(job.read()) == {"host_other": 190, "launching": 10}


def test_a_copy_to_pageable_memory_is_a_wait() -> None:
    job = Building()
    job.copy("DtoH (Device -> Pageable)", 0, 100, ahead=20, launch_us=125)
    job.kernel("second", 300, 100, ahead=10)
    found = job.read()
    assert causes(found) == {"synchronization": 190, "launching": 10}
    assert [(row.blocking_calls, row.blocking_ms) for row in found.call_rows if row.name == "cudaMemcpyAsync"] == [
        (1, 0.125)
    ]


def test_a_copy_to_pinned_memory_is_none() -> None:
    job = Building()
    job.copy("DtoH (Device -> Pinned)", 0, 100, ahead=20, launch_us=125)
    job.kernel("second", 300, 100, ahead=10)
    assert "synchronization" not in causes(job.read())


def test_work_whose_launch_is_not_in_the_trace_was_the_hosts() -> None:
    job = Building()
    job.kernel("first", 0, 100)
    job.add("kernel", "second", 300, 100, stream=7, device=0, correlation=99)
    assert causes(job.read()) == {"host_other": 200}


def test_a_busy_gpu_has_no_cause() -> None:
    job = Building()
    job.kernel("first", 0, 100)
    job.kernel("second", 100, 100)
    job.kernel("third", 150, 10, stream=20)
    assert job.read().idle == Idle()


def test_the_launch_delay_is_that_of_an_empty_queue() -> None:
    job = Building()
    for at, ahead in enumerate((30, 4, 6, 8)):  # the first begins no gap
        job.kernel("k", 1000 * at, 10, ahead=ahead)
    job.kernel("queued", 3010, 10, ahead=500)
    assert job.read().launch_delay_us == 6


def test_launches_that_return_after_their_kernel_are_counted() -> None:
    job = Building()
    for at in range(4):
        job.kernel("k", 1000 * at, 10, ahead=5, launch_us=20 if at < 3 else 2)
    assert job.read().launch_blocking_share == 0.75


def test_operations_own_what_they_launch_and_what_their_children_do_not_take() -> None:
    job = Building()
    job.op("aten::linear", 0, 100)
    job.op("aten::addmm", 20, 50)
    job.kernel("gemm", 60, 33, ahead=30)  # launched at 30, within addmm
    job.kernel("bias", 200, 5, ahead=110)  # launched at 90, after addmm, within linear
    job.kernel("else", 300, 7, ahead=20)  # launched outside of both
    rows = {row.name: row for row in job.read().operation_rows}
    assert (rows["aten::linear"].self_ms, rows["aten::addmm"].self_ms) == (0.05, 0.05)
    assert (rows["aten::linear"].gpu_ms, rows["aten::addmm"].gpu_ms) == (0.005, 0.033)


REDUCED = {"In msg nelems": 1000, "Out msg nelems": 1000, "dtype": "Float", "Group size": 8}
GATHERED = {"In msg nelems": 10, "Out msg nelems": 80, "dtype": "BFloat16"}


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({"Collective name": "allreduce", **REDUCED}, ("all_reduce", 4000, 8)),
        ({"Collective name": "_allgather_base", **GATHERED}, ("all_gather", 160, 0)),
    ],
)
def test_a_collectives_own_arguments_tell_its_bytes(args: dict[str, object], told: tuple[str, int, int]) -> None:
    job = Building()
    job.kernel("ncclDevKernel_Generic", 0, 100, **args)  # type: ignore[arg-type]
    (row,) = job.read().collective_rows
    assert (row.kind, row.bytes, row.group) == told
    assert row.bandwidth_bytes_per_s == pytest.approx(row.bytes / 100e-6)


def test_an_annotation_that_ended_before_the_launch_tells_nothing() -> None:
    job = Building()
    dims = {"Input Dims": [[1024, 256]], "Input type": ["float"]}
    job.add("user_annotation", "nccl:all_to_all", 0, 35, **dims)
    job.kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", 100, 20, ahead=60)  # launched at 40
    (row,) = job.read().collective_rows
    assert (row.kind, row.bytes, row.bandwidth_bytes_per_s) == ("all_to_all", 0, None)


def test_the_annotation_around_its_launch_tells_it_where_the_kernel_does_not() -> None:
    job = Building()
    dims = {"Input Dims": [[1024, 256]], "Input type": ["float"]}
    job.add("user_annotation", "nccl:all_to_all", 1000, 50, **dims)  # another launch's
    job.add("user_annotation", "nccl:all_to_all", 0, 50, **{**dims, "Input Dims": [[10]]})
    job.kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", 100, 20, ahead=60)
    (row,) = job.read().collective_rows
    assert (row.kind, row.bytes, row.calls, row.total_ms, row.exposed_ms) == ("all_to_all", 40, 1, 0.02, 0.02)
