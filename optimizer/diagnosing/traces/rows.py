"""Tables of one rank, each row one name: kernels, operations, calls of the runtime, copies, collectives, products."""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np

from optimizer.diagnosing.traces import document as of
from optimizer.diagnosing.traces.columns import Activity
from optimizer.diagnosing.traces.host import Nesting
from optimizer.diagnosing.traces.intervals import Union
from optimizer.diagnosing.traces.kernel_kinds import kind_of, marks_of
from optimizer.diagnosing.traces.messages import kind_of as kind_of_message
from optimizer.diagnosing.traces.recording import Recording

DIRECTION = re.compile(r"(?P<short>[HDP]to[HDP])|Copy(?P<a>Host|Device)To(?P<b>Host|Device)")
MAX_COLLECTIVES = 20_000
SHOWN_NAME = 400


def copy_kind(name: str) -> str:
    """`HtoD pageable` of `Memcpy HtoD (Pageable -> Device)`."""
    found = DIRECTION.search(name)
    if found is None:
        direction = "other"
    else:
        direction = found["short"] or f"{found['a'][0]}to{found['b'][0]}"
    memory = " pageable" if "Pageable" in name else " pinned" if "Pinned" in name else ""
    return direction + memory


def _per_name(names: np.ndarray, *weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Names that occur, how often, and the sum of each weight."""
    found, inverse, counts = np.unique(names, return_inverse=True, return_counts=True)
    return found, counts, [np.bincount(inverse, weight, len(found)) for weight in weights]


def kernel_rows(recording: Recording) -> list[of.KernelRow]:
    gpu, texts = recording.gpu, recording.names.texts
    rows = []
    activities, durations = gpu.activities(), gpu.durations()
    for activity, kind in ((Activity.KERNEL, ""), (Activity.COPY, "memcpy"), (Activity.SET, "memset")):
        chosen = activities == activity
        time, blocks, occupancy = durations[chosen], gpu.blocks()[chosen], gpu.occupancies()[chosen]
        has_blocks, has_occupancy = ~np.isnan(blocks), ~np.isnan(occupancy)
        names, counts, sums = _per_name(
            gpu.names()[chosen],
            time,
            time * has_blocks,
            time * np.where(has_blocks, blocks, 0),
            time * has_occupancy,
            time * np.where(has_occupancy, occupancy, 0),
            time * (has_blocks & (blocks < 1)),
        )
        total, of_blocks, blocks_us, of_occupancy, occupancy_us, underfilled = sums
        rows += [
            of.KernelRow(
                name=texts[name][:SHOWN_NAME],
                kind=kind or kind_of(texts[name]),
                marks=[] if kind else sorted(marks_of(texts[name])),
                calls=int(counts[at]),
                total_ms=float(total[at]) / 1000,
                blocks_per_sm=float(blocks_us[at] / of_blocks[at]) if of_blocks[at] else None,
                occupancy_percent=float(occupancy_us[at] / of_occupancy[at]) if of_occupancy[at] else None,
                underfilled_ms=float(underfilled[at]) / 1000,
            )
            for at, name in enumerate(names)
        ]
    return _with_rest(sorted(rows, key=lambda row: -row.total_ms))


def _with_rest(rows: list[of.KernelRow]) -> list[of.KernelRow]:
    """What is beyond the limit as one row for each kind with equal marks, so that sums stay whole."""
    rest: dict[tuple[str, tuple[str, ...]], of.KernelRow] = {}
    for row in rows[of.MAX_ROWS :]:
        name = f"(further kernels: {row.kind})"
        key = (row.kind, tuple(row.marks))
        into = rest.setdefault(key, of.KernelRow(name=name, kind=row.kind, marks=row.marks, calls=0, total_ms=0.0))
        into.calls += row.calls
        into.total_ms += row.total_ms
        into.underfilled_ms += row.underfilled_ms
    return rows[: of.MAX_ROWS] + list(rest.values())


def launchers(recording: Recording, nesting: Nesting, launch: np.ndarray) -> list[int]:
    """The operation behind each GPU event whose launch is known, in their order; -1 where there is none."""
    calls, launched = recording.calls, launch[launch >= 0]
    if not len(recording.operations):
        return [-1] * len(launched)
    return nesting.innermost(calls.threads()[launched], calls.starts()[launched])


def operation_rows(
    recording: Recording, nesting: Nesting, launch: np.ndarray, launched_by: list[int]
) -> list[of.OperationRow]:
    operations, gpu = recording.operations, recording.gpu
    gpu_us: dict[int, float] = defaultdict(float)
    for operation, duration in zip(launched_by, gpu.durations()[launch >= 0].tolist(), strict=True):
        if operation >= 0:
            gpu_us[operations.name[operation]] += duration
    own = np.empty(len(operations))
    own[nesting.order] = nesting.own_us
    names, counts, (total, self_us) = _per_name(operations.names(), operations.durations(), own)
    rows = [
        of.OperationRow(
            name=recording.names.texts[name][:SHOWN_NAME],
            calls=int(counts[at]),
            total_ms=float(total[at]) / 1000,
            self_ms=float(self_us[at]) / 1000,
            gpu_ms=gpu_us.get(int(name), 0.0) / 1000,
            sources=recording.sources.lines.get(int(name), {}),
        )
        for at, name in enumerate(names)
    ]
    return sorted(rows, key=lambda row: -(row.gpu_ms + row.self_ms))[: of.MAX_ROWS]


def call_rows(recording: Recording, waits: np.ndarray) -> list[of.CallRow]:
    calls = recording.calls
    durations = calls.durations()
    names, counts, (total, waited, blocking) = _per_name(calls.names(), durations, waits, durations * waits)
    rows = [
        of.CallRow(
            name=recording.names.texts[name][:SHOWN_NAME],
            calls=int(counts[at]),
            total_ms=float(total[at]) / 1000,
            blocking_calls=int(waited[at]),
            blocking_ms=float(blocking[at]) / 1000,
        )
        for at, name in enumerate(names)
    ]
    return sorted(rows, key=lambda row: -row.total_ms)[: of.MAX_ROWS]


def copy_rows(recording: Recording) -> list[of.CopyRow]:
    gpu = recording.gpu
    chosen = gpu.activities() == Activity.COPY
    names, counts, (total, size) = _per_name(gpu.names()[chosen], gpu.durations()[chosen], gpu.sizes()[chosen])
    rows: dict[str, of.CopyRow] = {}
    for at, name in enumerate(names):
        kind = copy_kind(recording.names.texts[name])
        row = rows.setdefault(kind, of.CopyRow(kind=kind, calls=0, total_ms=0.0, bytes=0))
        row.calls += int(counts[at])
        row.total_ms += float(total[at]) / 1000
        row.bytes += int(size[at])
    return sorted(rows.values(), key=lambda row: -row.total_ms)[: of.MAX_ROWS]


def collectives(
    recording: Recording, which: np.ndarray, others: Union
) -> tuple[list[of.CollectiveRow], list[of.Collective]]:
    """`which`: indices of the kernels of collectives; `others`: the union of all other kernels."""
    gpu, texts = recording.gpu, recording.names.texts
    messages = recording.messages.of(gpu, which, recording.calls)
    starts, durations = gpu.starts()[which], gpu.durations()[which]
    exposed = durations - others.within(starts, starts + durations)
    rows: dict[tuple[str, str, int, int], of.CollectiveRow] = {}
    single: list[of.Collective] = []
    for at, index in enumerate(which.tolist()):
        name, message = texts[gpu.name[index]][:120], messages.get(index)
        kind = message.kind if message and message.kind != "other" else kind_of_message(name)
        size, group = (message.size_bytes, message.group) if message else (0, 0)
        row = rows.setdefault(
            (kind, name, size, group),
            of.CollectiveRow(kind=kind, kernel=name, calls=0, total_ms=0, exposed_ms=0, bytes=size, group=group),
        )
        row.shortest_us = min(row.shortest_us, float(durations[at])) if row.calls else float(durations[at])
        row.calls += 1
        row.total_ms += float(durations[at]) / 1000
        row.exposed_ms += float(exposed[at]) / 1000
        if len(single) < MAX_COLLECTIVES:
            key = f"{kind}: {name.partition('(')[0]}"
            single.append(of.Collective(key=key, start_us=float(starts[at]), duration_us=float(durations[at])))
    for row in rows.values():
        if row.bytes and row.total_ms:
            row.bandwidth_bytes_per_s = row.bytes * row.calls / row.total_ms * 1000
    return sorted(rows.values(), key=lambda row: -row.total_ms)[: of.MAX_ROWS], single


def product_rows(recording: Recording) -> list[of.ProductRow]:
    rows = [
        of.ProductRow(batch=p.batch, m=p.m, n=p.n, k=p.k, dtype=p.dtype, calls=calls, flops=float(p.flops) * calls)
        for p, calls in recording.shapes.products.items()
    ]
    return sorted(rows, key=lambda row: -row.flops)[: of.MAX_ROWS]


def padding_rows(recording: Recording) -> list[of.PaddingRow]:
    return [
        of.PaddingRow(operation=name, calls=row.calls, positions=row.positions, filled=row.filled)
        for name, row in recording.paddings.found.items()
    ]
