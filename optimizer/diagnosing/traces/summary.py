"""From the columns of one rank to its document."""

from __future__ import annotations

from typing import Any

import numpy as np

from optimizer.diagnosing.traces import idle, rows
from optimizer.diagnosing.traces.columns import Activity, Columns
from optimizer.diagnosing.traces.document import MAX_ROWS, SHORT_US, Device, RankTrace
from optimizer.diagnosing.traces.host import launches, nest
from optimizer.diagnosing.traces.intervals import Union, union
from optimizer.diagnosing.traces.kernel_kinds import COMMUNICATION
from optimizer.diagnosing.traces.pace import paces
from optimizer.diagnosing.traces.recomputing import recomputed
from optimizer.diagnosing.traces.recording import Recording
from optimizer.diagnosing.traces.timeline import timeline

MOST_DEVICES_TOLD = 64


def summarize(recording: Recording, name: str) -> RankTrace:
    gpu = recording.gpu
    launch = launches(gpu, recording.calls)
    waits = idle.blocking(recording, launch)
    steps, loading = _union(recording.steps), _union(recording.loading)
    nesting = nest(recording.operations)
    launched_by = rows.launchers(recording, nesting, launch)
    answer = RankTrace(
        name=name,
        events=recording.events,
        malformed=recording.malformed,
        steps=len(set(recording.steps.name)),
        steps_ms=steps.length / 1000,
        data_loading_ms=loading.length / 1000,
        operation_rows=rows.operation_rows(recording, nesting, launch, launched_by),
        call_rows=rows.call_rows(recording, waits),
        product_rows=rows.product_rows(recording),
        doubles=recording.shapes.doubles,
        regions=dict(recording.regions.most_common(MAX_ROWS)),
        compiling_ms=_union(recording.compiling).length / 1000,
        collecting_ms=_union(recording.collecting).length / 1000,
        optimizer_ms=_union(recording.optimizer).length / 1000,
        padding_rows=rows.padding_rows(recording),
        on_padding=dict(recording.paddings.on_padding),
    )
    _identify(answer, recording)
    if len(gpu):
        _gpu(answer, recording, launch, waits, loading)
        again = recomputed(recording, nesting, launch, launched_by)
        answer.recomputed_ms, answer.recomputed_calls = again.ms, again.calls
        answer.paces = paces(recording, answer.steps)
    else:
        hosts = [columns for columns in (recording.operations, recording.steps, recording.calls) if len(columns)]
        if hosts:
            first, last = min(c.starts().min() for c in hosts), max(c.ends().max() for c in hosts)
            answer.span_ms = float(last - first) / 1000
    return answer


def _union(columns: Columns) -> Union:
    return union(columns.starts(), columns.ends())


def _gpu(answer: RankTrace, recording: Recording, launch: np.ndarray, waits: np.ndarray, loading: Union) -> None:
    gpu = recording.gpu
    starts, ends = gpu.starts(), gpu.ends()
    busy = union(starts, ends)
    kernels = gpu.activities() == Activity.KERNEL
    communicates = np.array([bool(COMMUNICATION.search(text)) for text in recording.names.texts])
    collective = kernels & communicates[gpu.names()]
    other = kernels & ~collective
    communication, others = union(starts[collective], ends[collective]), union(starts[other], ends[other])

    answer.span_ms = float(busy.ends[-1] - busy.starts[0]) / 1000
    answer.busy_ms = busy.length / 1000
    answer.kernels = int(kernels.sum())
    answer.kernels_under_10us = int((gpu.durations()[kernels] < SHORT_US).sum())
    answer.kernel_ms = float(gpu.durations()[kernels].sum()) / 1000
    answer.communication_ms = communication.length / 1000
    answer.exposed_ms = (communication.length - communication.common(others)) / 1000
    causes = idle.by_gap(recording, busy, launch, waits, loading)
    answer.idle = idle.idle(causes)
    answer.timeline = timeline(busy, communication, others, causes)
    answer.launch_delay_us = idle.launch_delay_us(recording, busy, launch)
    answer.launch_blocking_share = idle.launch_blocking_share(recording, launch)
    answer.kernel_rows = rows.kernel_rows(recording)
    answer.copy_rows = rows.copy_rows(recording)
    answer.collective_rows, answer.collectives = rows.collectives(recording, np.flatnonzero(collective), others)


def _identify(answer: RankTrace, recording: Recording) -> None:
    """Rank and GPU, as far as the header tells them."""
    told = recording.header.get("distributedInfo")
    told = told if isinstance(told, dict) else {}
    answer.rank, answer.world_size = _count(told.get("rank")), _count(told.get("world_size"))
    answer.backend = told["backend"][:60] if isinstance(told.get("backend"), str) else None
    found = np.unique(recording.gpu.devices())
    answer.devices = [int(device) for device in found if device >= 0][:MOST_DEVICES_TOLD]
    listed = recording.header.get("deviceProperties")
    properties = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    used = answer.devices[0] if answer.devices else None
    mine = next((row for row in properties if row.get("id") == used), None) if used is not None else None
    if mine is not None:
        answer.device = _device(mine)
    peaks = recording.memory.peaks
    if peaks:
        fullest = max(peaks, key=lambda device: peaks[device][0])
        answer.peak_allocated_bytes, answer.reserved_at_peak_bytes = peaks[fullest]
        answer.peak_reserved_bytes = recording.memory.reserved[fullest]


def _device(row: dict[str, Any]) -> Device:
    major, minor = _count(row.get("computeMajor")), _count(row.get("computeMinor"))
    return Device(
        name=row["name"][:200] if isinstance(row.get("name"), str) else "",
        compute_capability=None if major is None or minor is None else (major, minor),
        multiprocessors=_count(row.get("numSms")),
        memory_bytes=_count(row.get("totalGlobalMem")),
    )


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 50 else None
