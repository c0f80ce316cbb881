"""Memory over one call, and whose bytes are alive at its peak: operation, module and line of the user's code.

What PyTorch's allocator on the CPU gives out and gets back while a graph is run node by node. Values are given back
after their last use, as the graph allows it; the user's own Python may hold them longer. Buffers that libraries keep
for themselves, and memory of GPUs, are not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.profiler import ProfilerActivity, profile, record_function

from optimizer.profiling.document import (
    GraphNode,
    MemoryOwner,
    MemoryTimeline,
    OperationSpan,
    PhaseName,
    PhaseSpan,
)
from optimizer.profiling.event_tree import Allocation, Event, events_named
from optimizer.profiling.marks import CALL, Marked, owners, phase_at, spans
from optimizer.profiling.one_call import operation_spans

WARM_UP, BINS, MOST_OWNERS = 2, 200, 40
OF_GRAPH = (
    "PyTorch's allocator was recorded while the graph ran node by node: what it gave out during the call and has not "
    "got back. Values end with their last use; buffers that libraries keep for themselves are not in it."
)


@dataclass(frozen=True)
class _Change:
    at_ns: int
    allocation: Allocation
    owner: tuple[str, GraphNode | None]
    phase: PhaseName | None


def memory_of_graph(
    module: fx.GraphModule, tensors: Sequence[torch.Tensor]
) -> tuple[MemoryTimeline, list[OperationSpan]]:
    """Of a call without gradients; and when its operations ran. `tensors` are the graph's flat inputs."""
    marked = Marked(module)
    with torch.no_grad():
        recorded = record(lambda: marked.run(*tensors, enable_io_processing=False))
    resident = held_bytes([*module.state_dict(keep_vars=True).values(), *tensors])
    return timeline(recorded, marked.places, resident, OF_GRAPH), operation_spans(recorded, marked.places)


def record(call: Callable[[], Any]) -> Event:
    """The last of a few calls, with its allocations."""
    for _ in range(WARM_UP):
        call()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        for _ in range(2):
            with record_function(CALL):
                call()
    return events_named(profiler, CALL)[-1]


def held_bytes(tensors: Iterable[Any]) -> int:
    """Of all memory behind them, each stretch once."""
    storages = [tensor.untyped_storage() for tensor in tensors if isinstance(tensor, torch.Tensor)]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def timeline(call: Event, places: Sequence[GraphNode], resident_bytes: int, how: str) -> MemoryTimeline:
    changes = _changes(call, places)
    held, peak, peak_at = _replayed(changes)
    points = [((change.at_ns - call.start_ns) / 1e6, size) for change, size in zip(changes, held, strict=True)]
    return MemoryTimeline(
        points=thinned([(0.0, 0), *points], call.ms),
        peak_bytes=peak,
        peak_at_ms=points[peak_at][0] if points else 0.0,
        resident_bytes=resident_bytes,
        owners=_alive(changes[: peak_at + 1], peak),
        phases=[
            PhaseSpan(name=name, from_ms=(first - call.start_ns) / 1e6, to_ms=(last - call.start_ns) / 1e6)
            for name, first, last in spans(call)
        ],
        how_obtained=how,
        profiled_ms=call.ms,
    )


def _changes(call: Event, places: Sequence[GraphNode]) -> list[_Change]:
    """In their order. What is given back and was not asked for during the call was there before it."""
    parts, of_event = spans(call), {id(owner.event): owner for owner in owners(call, places)}
    found: list[_Change] = []
    ahead: list[tuple[Event, tuple[str, GraphNode | None]]] = [(call, ("(outside of operations)", None))]
    while ahead:
        event, owner = ahead.pop()
        mine = of_event.get(id(event))
        owner = (mine.op, mine.place) if mine is not None else owner
        if event.allocation is not None:
            found.append(_Change(event.start_ns, event.allocation, owner, phase_at(parts, event.start_ns)))
        ahead += [(child, owner) for child in event.children]
    return sorted(found, key=lambda change: change.at_ns)


def _replayed(changes: Sequence[_Change]) -> tuple[list[int], int, int]:
    """What is held after each change; the most of it, and after which one."""
    alive: dict[int, int] = {}
    held, total, peak, peak_at = [], 0, 0, 0
    for at, change in enumerate(changes):
        address, size = change.allocation
        total -= alive.pop(address, 0)
        if size > 0:
            alive[address] = size
            total += size
        held.append(total)
        if total > peak:
            peak, peak_at = total, at
    return held, peak, peak_at


def _alive(changes: Sequence[_Change], peak: int) -> list[MemoryOwner]:
    """Whose bytes are held after all of these; small ones as one."""
    alive: dict[int, _Change] = {}
    for change in changes:
        alive.pop(change.allocation.address, None)
        if change.allocation.size > 0:
            alive[change.allocation.address] = change
    rows: dict[tuple[Any, ...], MemoryOwner] = {}
    for change in alive.values():
        op, place = change.owner
        module, source = (place.module, place.source) if place is not None else (None, None)
        fresh = MemoryOwner(op=op, module=module, source=source, phase=change.phase, bytes=0, share=0, tensors=0)
        row = rows.setdefault((op, module, source, change.phase), fresh)
        row.bytes += change.allocation.size
        row.tensors += 1
    found = sorted(rows.values(), key=lambda row: -row.bytes)
    shown, rest = found[:MOST_OWNERS], found[MOST_OWNERS:]
    if rest:
        size, tensors = sum(row.bytes for row in rest), sum(row.tensors for row in rest)
        shown.append(MemoryOwner(op=f"({len(rest)} smaller ones)", bytes=size, share=0, tensors=tensors))
    return [row.model_copy(update={"share": row.bytes / peak if peak else 0.0}) for row in shown]


def thinned(points: Sequence[tuple[float, int]], whole_ms: float) -> list[tuple[float, int]]:
    """Of each stretch of time the least, the most and the last: the peak stays what it is."""
    if len(points) <= 3 * BINS:
        return list(points)
    bins: dict[int, list[tuple[float, int]]] = {}
    for point in points:
        bins.setdefault(min(BINS - 1, int(point[0] / whole_ms * BINS)) if whole_ms else 0, []).append(point)
    kept: list[tuple[float, int]] = []
    for inside in bins.values():
        chosen = {min(inside, key=lambda p: p[1]), max(inside, key=lambda p: p[1]), inside[-1]}
        kept += [point for point in dict.fromkeys(inside) if point in chosen]
    return kept
