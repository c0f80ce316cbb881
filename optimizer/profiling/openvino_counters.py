"""Reads OpenVINO's own counters: one row for each primitive that it ran, with the graph's nodes that it fused into it.

Its clock counts whole microseconds.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from optimizer.profiling.document import GraphNode, Operation
from optimizer.profiling.places import common_place, found_in

WARM_UP = 2


def profile_compiled(
    compiled: Any, arrays: Sequence[np.ndarray], calls: int, places: Mapping[str, GraphNode]
) -> tuple[list[Operation], float]:
    """`compiled` with PERF_COUNT. Rows of one call, and the median milliseconds of a profiled call."""
    request = compiled.create_infer_request()
    walls, told = [], []
    for _ in range(calls + WARM_UP):
        began = time.perf_counter_ns()
        request.infer(list(arrays), share_inputs=True, share_outputs=False)
        walls.append(time.perf_counter_ns() - began)
        told.append(request.profiling_info)
    return read_counters(told[WARM_UP:], _fused(compiled), places), statistics.median(walls[WARM_UP:]) / 1e6


def _fused(compiled: Any) -> dict[str, list[str]]:
    """The original layers in each primitive, as the graph that really runs says."""
    found = {}
    for op in compiled.get_runtime_model().get_ordered_ops():
        facts = op.get_rt_info()
        names = str(facts["originalLayersNames"].value) if "originalLayersNames" in facts else ""
        found[op.get_friendly_name()] = [name for name in names.split(",") if name]
    return found


def read_counters(
    calls: Sequence[Sequence[Any]], fused: Mapping[str, Sequence[str]], places: Mapping[str, GraphNode]
) -> list[Operation]:
    """What did not run (an input, a node that lives in another) has no row."""
    times: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for infos in calls:
        for info in infos:
            if info.status == info.Status.EXECUTED:
                key = (info.node_name, info.node_type, info.exec_type)
                times[key].append(info.real_time.total_seconds() * 1e3)
    rows = []
    for (name, kind, how), taken in times.items():
        nodes = found_in(fused.get(name) or [], places)
        rows.append(
            Operation(
                op=f"{kind} ({how})" if how and how != "undef" else kind,
                **common_place(nodes),
                calls=1,
                self_ms=statistics.median(taken),
                share=0.0,
                nodes=nodes,
            )
        )
    return rows
