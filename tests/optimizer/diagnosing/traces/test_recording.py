"""Every field of a trace may be anything: what makes no sense is counted and left out, never believed."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from optimizer.diagnosing.traces import columns
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.recording import read
from optimizer.diagnosing.traces.summary import summarize
from optimizer.errors import FuseworksError
from tests.optimizer.diagnosing.traces.building import A100, Building


def of(*events: Any, **header: Any) -> RankTrace:
    return summarize(read(iter([json.dumps({**header, "traceEvents": list(events)})])), "trace.json")


def event(**changes: Any) -> dict[str, Any]:
    plain = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 10, "dur": 5, "args": {"stream": 7}}
    return {**plain, **changes}


@pytest.mark.parametrize(
    "wrong",
    [
        {"ts": None}, {"ts": "soon"}, {"ts": [1]}, {"ts": True}, {"ts": 1e300}, {"dur": -1}, {"dur": "x"},
        {"dur": {}}, {"name": 3}, {"name": None}, {"cat": ["kernel"]}, {"dur": 1e19}, {"ts": 10**40},
    ],
)  # fmt: skip
def test_an_event_that_makes_no_sense_is_left_out_and_counted(wrong: dict[str, Any]) -> None:
    found = of(event(), event(**wrong))
    assert (found.kernels, found.malformed, found.events) == (1, 1, 2)


def test_what_is_no_event_at_all_is_left_out_and_counted() -> None:
    found = of(event(), 7, None, "x", [event()])
    assert (found.kernels, found.malformed) == (1, 4)


def test_numbers_written_as_text_and_streams_by_name_are_read() -> None:
    found = of(
        event(ts="10.5", dur="2", cat="Kernel", tid="stream 7", args={"device": "1"}),
        event(ts=20, dur=4, cat="Kernel", tid="stream 20", args={"device": 1}),
    )
    assert (found.kernels, found.kernel_ms, found.span_ms, found.devices) == (2, 0.006, 0.0135, [1])


@pytest.mark.parametrize(
    "args",
    [
        {"stream": "x", "correlation": "y", "bytes": -5, "device": "z", "blocks per SM": "many"},
        {"stream": 10**40, "correlation": 10**40, "bytes": 10**40, "device": 10**40, "blocks per SM": 1e300},
        {"stream": None, "correlation": [], "bytes": {}, "device": -3, "est. achieved occupancy %": -1},
        {"Collective name": ["x"], "In msg nelems": -1, "Group size": "a", "dtype": 3},
        {"Collective name": "x" * 100_000, "In msg nelems": 10**30},
    ],
)
def test_arguments_of_any_kind_do_no_harm(args: dict[str, Any]) -> None:
    found = of(event(args=args), event(name="ncclKernel", args=args), event(cat="gpu_memcpy", args=args))
    assert (found.kernels, found.malformed) == (2, 0)


@pytest.mark.parametrize(
    "header",
    [
        {"distributedInfo": [1], "deviceProperties": {"id": 0}},
        {"distributedInfo": {"rank": -1, "world_size": "two", "backend": 7}, "deviceProperties": [3, {"id": 0}]},
        {"deviceProperties": [{"id": 0, "name": ["x"], "computeMajor": "8", "numSms": -1, "totalGlobalMem": 10**40}]},
    ],
)
def test_a_header_of_any_kind_does_no_harm(header: dict[str, Any]) -> None:
    found = of(event(), **header)
    assert (found.rank, found.world_size, found.device.name, found.device.compute_capability) == (None, None, "", None)


def test_the_header_tells_rank_and_gpu() -> None:
    found = of(event(args={"device": 0}), distributedInfo={"rank": 3, "world_size": 8}, deviceProperties=[A100])
    assert (found.rank, found.world_size, found.device.multiprocessors) == (3, 8, 108)
    assert found.device.compute_capability == (8, 0)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"schema": "1.0.1", "nodes": [1, 2]}', "a PyTorch execution trace"),
        ('{"model": {"layers": 3}, "lr": 0.1}', "a JSON object with the keys lr, model"),
        ('{"traceEvents": [{"ph": "X", "name": "x", "ts": 1, "dur": 1}]}', "a list of 1 events of which none"),
        ('[{"ph": "B", "cat": "blink", "name": "x", "ts": 1}]', "a list of 1 events of which none"),
        ('{"traceEvents": []}', "a list of 0 events"),
        ("{}", "an empty JSON object"),
        ("hello", "no JSON document"),
        ("", "an empty file"),
        ("3", "no JSON document"),
    ],
)
def test_a_file_of_another_kind_is_refused_by_name(text: str, what: str) -> None:
    with pytest.raises(FuseworksError) as caught:
        read(iter([text] if text else []))
    assert caught.value.id == "diagnosing:user:foreign"
    assert what in caught.value.message


def test_of_the_header_only_what_is_used_is_kept() -> None:
    text = json.dumps({"deviceProperties": [A100], "INFO": ["x" * 1000], "traceEvents": [event()], "traceName": "t"})
    assert read(iter([text])).header == {"deviceProperties": [A100]}


def test_keys_without_end_are_refused() -> None:
    with pytest.raises(FuseworksError) as caught:
        read(iter([json.dumps({f"key {at}": at for at in range(10_001)})]))
    assert "more than 10000 keys" in caught.value.message


def test_names_without_end_are_kept_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MAX_NAMES", 50)
    recording = read(iter([json.dumps([event(name=f"kernel {at}") for at in range(1000)])]))
    assert len(recording.names.texts) == 50
    found = summarize(recording, "trace.json")
    assert (found.kernels, found.kernel_ms) == (1000, 5.0)  # all are counted, most under one name
    assert found.kernel_rows[0].name == columns.OTHER


def test_a_long_name_is_cut() -> None:
    recording = read(iter([json.dumps([event(name="k" * 100_000)])]))
    assert len(recording.names.texts[1]) == columns.MAX_NAME_CHARS


def test_rocm_names_are_read() -> None:
    job = Building()
    job.kernel("Cijk_Ailk_Bljk_BBS_BH_MT128x128x32_MI16x16x16x1", 100, 50, call="hipExtModuleLaunchKernel")
    job.kernel("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", 200, 25, call="hipExtLaunchKernel")
    job.copy("CopyHostToDevice", 300, 10)
    found = job.read()
    assert {row.kind: row.calls for row in found.copy_rows} == {"HtoD": 1}
    assert (found.communication_ms, found.kernels) == (0.025, 2)
    assert found.marked_ms("tensor_core") == 0.05


@pytest.mark.parametrize("seed", range(8))
def test_trees_of_random_values_never_raise(seed: int) -> None:
    rng = random.Random(seed)

    def value(depth: int) -> Any:
        kinds = [None, True, -1, 0, 2**70, 1e308, "x", "12", "kernel", "ProfilerStep#1", "nccl:all_reduce"]
        if depth and rng.random() < 0.4:
            keys = ["name", "ts", "dur", "Input Dims", "Input type", "stream", "correlation", "bytes", "dtype"]
            return rng.choice([[value(depth - 1) for _ in range(3)], {k: value(depth - 1) for k in keys}])
        return rng.choice(kinds)

    categories = ["kernel", "cpu_op", "cuda_runtime", "gpu_memcpy", "user_annotation", "python_function", "Operator"]
    names = ["aten::mm", "ncclKernel", "nccl:all_reduce", "ProfilerStep#2", "DataLoader", "record_param_comms"]
    events = [
        event(
            cat=rng.choice(categories),
            name=rng.choice(names),
            ts=rng.choice([rng.random() * 1000, value(0)]),
            dur=rng.choice([rng.random() * 10, value(0)]),
            tid=value(1),
            pid=value(1),
            args={
                key: value(3)
                for key in [
                    "Input Dims",
                    "Input type",
                    "Collective name",
                    "In msg nelems",
                    "dtype",
                    "correlation",
                    "device",
                ]
            },
        )
        for _ in range(300)
    ]
    found = of(event(), *events, *({"ph": "i", "name": "[memory]", "args": value(2)} for _ in range(20)))
    assert found.events == 321
    assert RankTrace.model_validate(found.model_dump(mode="json")) == found
