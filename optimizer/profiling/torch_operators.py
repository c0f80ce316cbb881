"""Reads a contender with torch's own profiler: one row for each operation that a call runs, in its order.

An operation is the outermost that records itself: a kernel, or a call of a library with all that it calls. What runs
between them (guards, the wrapper's Python, allocations of buffers) is in no row. On a CPU only: there a record lasts as
long as the work.
"""

from __future__ import annotations

import re
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch.profiler import ProfilerActivity, profile, record_function

from optimizer.profiling.document import GraphNode, Operation
from optimizer.profiling.inductor_kernels import Kernel, bare
from optimizer.profiling.places import common_place

CALL = "fuseworks::one call"
WARM_UP = 2
_OPERATION = re.compile(r"^((graph_\d+_)?(cpp|triton)_|aoti_torch_|\w+::)")
_SHOWN = re.compile(r"^(graph_\d+_|aoti_torch_(cpu|cuda)_|aten::)")


def profile_operators(
    call: Callable[[], Any], calls: int, kernels: Sequence[Kernel] = ()
) -> tuple[list[Operation], float]:
    """Rows of one call, and the median milliseconds of a profiled call. `kernels`: what is in them, in their order."""
    for _ in range(WARM_UP):
        call()
    walls = []
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        for _ in range(calls + WARM_UP):
            began = time.perf_counter_ns()
            with record_function(CALL):
                call()
            walls.append(time.perf_counter_ns() - began)
    events: Any = profiler.events()
    roots = sorted((e for e in events if e.name == CALL), key=lambda event: event.time_range.start)
    rows = rows_of([list(_outermost(root)) for root in roots[WARM_UP:]], kernels)
    return rows, statistics.median(walls[WARM_UP:]) / 1e6


def _outermost(event: Any) -> Iterator[Any]:
    """The operations below `event`, in the order in which they began."""
    for child in sorted(event.cpu_children, key=lambda child: child.time_range.start):
        if _OPERATION.match(child.name):
            yield child
        else:
            yield from _outermost(child)


def rows_of(calls: Sequence[Sequence[Any]], kernels: Sequence[Kernel]) -> list[Operation]:
    """`calls`: the events of each. The nth operation of a name is the same one in every call."""
    times: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for events in calls:
        seen: dict[str, int] = defaultdict(int)
        for event in events:
            times[event.name, seen[event.name]].append(event)
            seen[event.name] += 1
    counts: dict[str, int] = defaultdict(int)
    for name, _ in times:
        counts[name] += 1
    held: dict[str, list[list[GraphNode]]] = defaultdict(list)
    for name, nodes in kernels:
        held[name].append(nodes)
    rows = []
    for (name, at), events in times.items():
        of_name = held.get(bare(name), [])
        # another number of calls than the compiler wrote: which is which cannot be told
        nodes = of_name[at] if len(of_name) == counts[name] else []
        rows.append(
            Operation(
                op=_SHOWN.sub("", name),
                **common_place(nodes),
                calls=1,
                self_ms=statistics.median(event.cpu_time_total for event in events) / 1e3,
                share=0.0,
                nodes=nodes,
                shapes=[shape for shape in events[0].input_shapes or [] if _is_shape(shape)],
            )
        )
    return rows


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, list) and bool(shape) and all(isinstance(size, int) for size in shape)
