"""Profiles a contender that is no graph with torch's own profiler: operators and shapes, without module or source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.profiler import ProfilerActivity, profile

from optimizer.result import Operation


def profile_operators(call: Callable[[], Any], calls: int) -> tuple[list[Operation], float]:
    """Rows of self time per model call, and the milliseconds of a profiled call."""
    call()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, with_flops=True) as profiler:
        for _ in range(calls):
            call()
    rows = []
    for event in profiler.key_averages(group_by_input_shape=True):
        if not event.key.startswith(("aten::", "fuseworks::", "mkldnn::", "mkl::")) or event.self_cpu_time_total <= 0:
            continue
        rows.append(
            Operation(
                op=event.key.removeprefix("aten::"),
                calls=max(1, round(event.count / calls)),
                self_ms=event.self_cpu_time_total / 1e3 / calls,
                share=0.0,
                shapes=[shape for shape in event.input_shapes if _is_shape(shape)],
                flops=int(event.flops / calls) or None,
            )
        )
    return rows, sum(row.self_ms for row in rows)


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, list) and bool(shape) and all(isinstance(size, int) for size in shape)
