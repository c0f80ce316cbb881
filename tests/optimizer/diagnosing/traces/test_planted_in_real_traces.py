"""Causes planted by editing real traces: each is found where it was planted, at what it costs, and not before."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.kernel_kinds import kind_of
from optimizer.diagnosing.traces.ranking import ranked
from optimizer.diagnosing.traces.recording import read
from optimizer.diagnosing.traces.summary import summarize
from optimizer.result import Finding
from tests.optimizer.diagnosing.traces.real import path_of, trace

Event = dict[str, Any]
Edit = Callable[[list[Event]], None]
BUSY = "resnet_ddp_v100_ns"  # of one GPU, 98 % busy, 5 steps in 480 ms
GPU = ("kernel", "gpu_memcpy", "gpu_memset")


@cache
def original(name: str) -> str:
    return gzip.decompress(path_of(name).read_bytes()).decode()


def edited(name: str, edit: Edit) -> RankTrace:
    document = json.loads(original(name))
    edit(document["traceEvents"])
    return summarize(read(iter([json.dumps(document)])), name)


def of(rank: RankTrace, rule: str) -> Finding | None:
    return next((finding for finding in ranked([rank]).findings if finding.rule == rule), None)


def moments(events: list[Event], count: int) -> list[float]:
    """Evenly spread over the work of the GPU: where a kernel of at least 100 us ends. Not in the last quarter, in
    which the host waits for the end."""
    ends = sorted(e["ts"] + e["dur"] for e in events if e.get("cat") == "kernel" and e["dur"] > 100)
    ends = ends[: len(ends) * 3 // 4]
    return [ends[len(ends) * (at + 1) // (count + 1)] for at in range(count)]


def pushed(events: list[Event], moment: float, us: float) -> None:
    """Nothing happens for `us` from `moment` on: what begins later begins later still, launches included."""
    for event in events:
        if event.get("ph") == "X" and event["ts"] >= moment:
            event["ts"] += us
    calls = {e["args"]["correlation"]: e for e in events if e.get("cat") == "cuda_runtime" and e.get("args")}
    later = [e for e in events if e.get("cat") in GPU and e["ts"] >= moment + us]
    for event in later:  # the host had run ahead: now it did not
        call = calls.get(event["args"].get("correlation"))
        if call is not None and call["ts"] < moment + us:
            call["ts"] = moment + us - 5


def gaps(us: float, mark: Callable[[list[Event], float, float], None]) -> Edit:
    def edit(events: list[Event]) -> None:
        for moment in reversed(moments(events, 5)):
            pushed(events, moment, us)
            mark(events, moment, us)

    return edit


def host_thread(events: list[Event]) -> Any:
    return next(e["tid"] for e in events if e.get("name") == "cudaLaunchKernel")


def loads_data(events: list[Event], moment: float, us: float) -> None:
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    events.append({"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1, "ts": moment, "dur": us - 10})


def waits_for_nothing(events: list[Event], moment: float, us: float) -> None:
    """The host is in no operation."""
    for event in events:
        if event.get("cat") == "cpu_op" and moment < event["ts"] + event.get("dur", 0) and event["ts"] < moment + us:
            event["dur"] = max(0.0, min(event["dur"], moment - event["ts"]))


def synchronizes(events: list[Event], moment: float, us: float) -> None:
    tid = host_thread(events)
    call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "pid": 1, "tid": tid}
    events.append({**call, "ts": moment - 50, "dur": 51, "args": {"correlation": -1}})


def communicates(events: list[Event], moment: float, us: float) -> None:
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"
    args = {"device": 0, "stream": 99, "correlation": 10**9 + int(moment) % 10**6}
    events.append(
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 99, "ts": moment, "dur": us, "args": args}
    )


def copies_from_pageable_memory(events: list[Event], moment: float, us: float) -> None:
    args = {"device": 0, "stream": 7, "correlation": 10**9 + int(moment) % 10**6, "bytes": 1 << 24}
    copy = {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 0, "tid": 7}
    events.append({**copy, "ts": moment, "dur": us, "args": args})


@pytest.mark.parametrize(
    ("rule", "mark"),
    [
        ("data_loading", loads_data),
        ("host_wait", waits_for_nothing),
        ("exposed_communication", communicates),
        ("pageable_copies", copies_from_pageable_memory),
    ],
)
def test_a_gap_is_found_by_its_cause_and_costs_what_was_planted(
    rule: str, mark: Callable[[list[Event], float, float], None]
) -> None:
    us = 15_000.0
    assert of(trace(BUSY), rule) is None
    rank = edited(BUSY, gaps(us, mark))
    finding = of(rank, rule)
    assert finding is not None and finding.cost_ms is not None
    assert rank.span_ms == pytest.approx(480.0 + 5 * us / 1000, abs=0.5)
    assert finding.cost_ms == pytest.approx(5 * us / 1000, rel=0.1)
    assert ranked([rank]).findings.index(finding) <= 1  # beside float32 products on a GPU with tensor cores


def test_waits_for_the_gpu_are_found_where_they_were_planted() -> None:
    assert of(trace(BUSY), "host_synchronization") is None
    finding = of(edited(BUSY, gaps(15_000.0, synchronizes)), "host_synchronization")
    assert finding is not None and finding.cost_ms == pytest.approx(75.0, rel=0.1)


def renamed(old: str, new: str) -> Edit:
    def edit(events: list[Event]) -> None:
        for event in events:
            if event.get("cat") == "kernel" and old in event["name"]:
                event["name"] = new

    return edit


@pytest.mark.parametrize(
    ("name", "rule", "old", "new"),
    [
        ("torchrec_a100_control", "fp32_gemm_without_tf32", "s1688gemm_64x64", "ampere_sgemm_64x64_nn"),
        ("torchrec_a100_control", "float64_leftovers", "s1688gemm", "ampere_dgemm_64x64_nn"),
        ("torchrec_a100_control", "index_atomics", "s1688gemm", "void at::native::indexing_backward_kernel<float, 4>"),
        (BUSY, "layout_conversions", "bn_bw", "void cudnn::ops::nchwToNhwcKernel<float, float>"),
        (BUSY, "cat_storms", "bn_bw", "void at::native::CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>"),
        (BUSY, "zero_grad_fills", "bn_bw", "void at::native::elementwise_kernel<4, at::native::FillFunctor<float> >"),
    ],
)  # fmt: skip
def test_kernels_of_another_kind_are_found_by_what_they_take(name: str, rule: str, old: str, new: str) -> None:
    before = of(trace(name), rule)
    rank = edited(name, renamed(old, new))
    finding = of(rank, rule)
    assert finding is not None and finding.cost_ms is not None
    was = before.cost_ms if before is not None and before.cost_ms is not None else 0.0
    assert finding.cost_ms > was + 0.02 * rank.span_ms


def test_tensor_cores_cure_what_float32_products_cost() -> None:
    assert of(trace(BUSY), "no_tensor_cores") is not None
    assert of(edited(BUSY, renamed("sgemm", "volta_fp16_s884gemm_fp16_128x128_nn")), "no_tensor_cores") is None


def slower_from_the_middle_on(factor: float) -> Edit:
    """Products of the later half: the clock, and no kernel of its own."""

    def edit(events: list[Event]) -> None:
        kernels = [event for event in events if event.get("cat") == "kernel"]
        middle = sorted(event["ts"] for event in kernels)[len(kernels) // 2]
        for event in kernels:
            if event["ts"] > middle and kind_of(event["name"]) in ("gemm", "convolution", "attention"):
                event["dur"] *= factor

    return edit


def computed_again(events: list[Event]) -> None:
    """What backward does of convolutions becomes one of forward, as a checkpoint runs it."""
    for event in events:
        if event.get("cat") == "cpu_op" and event["name"] == "aten::convolution_backward":
            event["name"] = "aten::conv2d"


@pytest.mark.parametrize(("factor", "found"), [(1.0, False), (1.05, False), (1.25, True)])
def test_a_clock_that_drops_in_the_middle_is_found(factor: float, found: bool) -> None:
    finding = of(edited(BUSY, slower_from_the_middle_on(factor)), "clock_drop")
    assert (finding is not None) == found
    if finding is not None:
        # two of five steps and a part of the third take a quarter more
        assert finding.evidence["slow_steps"] in (2, 3)
        assert max(finding.evidence["time_over_fastest_quarter"]) == pytest.approx(factor, abs=0.02)


def test_convolutions_that_backward_computes_again_are_found() -> None:
    assert of(trace(BUSY), "recomputation") is None
    finding = of(edited(BUSY, computed_again), "recomputation")
    assert finding is not None and finding.cost_share is not None
    assert set(finding.evidence["recomputed_calls_per_step"]) == {"aten::conv2d"}
    # gradients of inputs and of weights: two thirds of what convolutions take, the most of this model
    assert finding.cost_share > 0.3
