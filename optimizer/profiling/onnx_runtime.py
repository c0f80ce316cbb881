"""Reads ONNX Runtime's own session profiling: one row per node of the graph that it really runs."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from optimizer.profiling.document import GraphNode, Operation

WARM_UP = 2
_ITEM_BYTES = {"float": 4, "double": 8, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1}
_ITEM_BYTES |= {"uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8, "bool": 1}
_PRODUCTS = frozenset({"MatMul", "FusedMatMul", "Gemm", "FusedGemm"})
_NAMES = {"float": "float32", "double": "float64"}


def profile_session(
    opened: Callable[[str], Any],
    arrays: Sequence[np.ndarray],
    calls: int,
    scratch: Path,
    places: Mapping[str, GraphNode],
) -> tuple[list[Operation], float]:
    """Rows of one call, and the median milliseconds of a profiled call. `opened` makes a session that profiles itself
    into a file that begins with the given prefix."""
    session = opened(str(scratch / "onnxruntime-profile"))
    feed = dict(zip([i.name for i in session.get_inputs()], arrays, strict=True))
    walls = []
    for _ in range(calls + WARM_UP):
        began = time.perf_counter_ns()
        session.run(None, feed)
        walls.append(time.perf_counter_ns() - began)
    path = Path(session.end_profiling())
    rows = read_events(json.loads(path.read_text()), WARM_UP, places)
    path.unlink()
    return rows, statistics.median(walls[WARM_UP:]) / 1e6


def read_events(events: Sequence[dict[str, Any]], warm_up: int, places: Mapping[str, GraphNode]) -> list[Operation]:
    """From ONNX Runtime's trace to rows; the first `warm_up` calls of each node do not count."""
    timed: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event.get("cat") == "Node" and str(event.get("name", "")).endswith("_kernel_time"):
            timed[event["name"].removesuffix("_kernel_time")].append(event)
    rows = []
    for node, all_calls in timed.items():
        counted = all_calls[warm_up:]
        if not counted:
            continue
        facts = counted[0]["args"]
        inputs, outputs = _types(facts.get("input_type_shape")), _types(facts.get("output_type_shape"))
        # a node that it fused keeps the name of its first part; of the others it says nothing
        place = places.get(node) or places.get(node.removeprefix("fused "))
        rows.append(
            Operation(
                op=str(facts.get("op_name", "?")),
                module=place.module if place else node,
                source=place.source if place else None,
                calls=1,
                self_ms=statistics.median(float(event["dur"]) for event in counted) / 1e3,
                share=0.0,
                nodes=[place] if place else [],
                shapes=[shape for _, shape in inputs],
                dtypes=[_NAMES.get(dtype, dtype) for dtype, _ in inputs],
                flops=flops(str(facts.get("op_name")), [s for _, s in inputs], [s for _, s in outputs]),
                bytes=_bytes(str(facts.get("op_name")), inputs, outputs),
            )
        )
    return rows


def flops(op: str, inputs: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]]) -> int | None:
    """Multiply-adds count twice. None for what is no product."""
    if op in _PRODUCTS and inputs and outputs and outputs[0]:
        return 2 * math.prod(outputs[0]) * _inner(op, inputs[0], outputs[0])
    if op in {"Conv", "FusedConv"} and len(inputs) > 1 and outputs:
        return 2 * math.prod(outputs[0]) * math.prod(inputs[1][1:])
    return None


def _inner(op: str, left: Sequence[int], out: Sequence[int]) -> int:
    """The size that is summed over. Gemm's transA is not told, but both ways the rows are the output's."""
    return math.prod(left) // max(1, out[0]) if op.endswith("Gemm") else left[-1]


def _bytes(op: str, inputs: list[tuple[str, list[int]]], outputs: list[tuple[str, list[int]]]) -> int:
    written = sum(map(_size, outputs))
    if op in {"Gather", "GatherElements", "GatherND"}:  # only the rows that are asked for
        return 2 * written + sum(map(_size, inputs[1:]))
    read = sum(map(_size, inputs))
    if op in _PRODUCTS and inputs and outputs and outputs[0][1]:
        # a weight that the runtime has packed for itself is not listed among the inputs
        inner, columns = _inner(op, inputs[0][1], outputs[0][1]), outputs[0][1][-1]
        if not any(sorted(shape[-2:]) == sorted((inner, columns)) for _, shape in inputs[1:]):
            read += _ITEM_BYTES.get(inputs[0][0], 4) * inner * columns
    return read + written


def _size(entry: tuple[str, list[int]]) -> int:
    return _ITEM_BYTES.get(entry[0], 4) * math.prod(entry[1])


def _types(listed: Any) -> list[tuple[str, list[int]]]:
    """ONNX Runtime writes `[{"float": [4, 3]}, ...]`."""
    return [(str(dtype), [int(d) for d in shape]) for entry in listed or [] for dtype, shape in entry.items()]
