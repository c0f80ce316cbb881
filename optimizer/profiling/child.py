"""Operation `profiling.profile`: where a call of the baseline spends its time. Runs in the baseline's own child."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from optimizer.children.session import Session
from optimizer.profiling.table import joined, with_roofs
from optimizer.result import Profile

DEFAULT_CALLS = 10


def profile(
    session: Session, request: dict[str, Any], arrays: list[np.ndarray]
) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Fields: calls; optional model (path of the captured graph) with format, threads, roofs. One input set.

    With a `pt2` the graph is timed node by node (module path and source line); an `onnx` is profiled by ONNX Runtime;
    without a graph torch's profiler looks at the contender itself.
    """
    calls = int(request.get("calls") or DEFAULT_CALLS)
    contender = session.state["contender"]
    native = contender.stage(arrays)
    call = _waited(contender, native)
    unprofiled_ms, faults = _undisturbed(call, calls)
    model, format_ = request.get("model"), request.get("format")
    if model and format_ == "onnx":
        from optimizer.profiling.onnx_runtime import profile_onnx

        rows, wall_ms = profile_onnx(model, arrays, calls, int(request.get("threads") or 1), session.scratch)
    elif model:
        from optimizer.compiling.torch_program import load_program
        from optimizer.profiling.torch_graph import profile_graph

        module = load_program(Path(model)).module().to(contender.device)
        # fresh inputs: a contender that writes into its inputs has spoilt the first ones
        rows, wall_ms = profile_graph(module, contender.stage(arrays).tensors, calls, contender.device)
    else:
        from optimizer.profiling.torch_operators import profile_operators

        rows, wall_ms = profile_operators(call, calls)
    operations = joined(rows)
    answer = Profile(
        operations=operations,
        total_ms=sum(row.self_ms for row in operations),
        page_faults_per_call=faults,
        overhead=wall_ms / unprofiled_ms if unprofiled_ms else None,
    )
    if request.get("roofs"):
        answer = with_roofs(answer, request["roofs"])
    return {"profile": answer.model_dump(mode="json")}, []


def _waited(contender: Any, native: Any) -> Callable[[], Any]:
    """On a GPU a call returns before its work is done."""
    if contender.device != "cuda":
        return lambda: contender.call(native)
    import torch

    def call() -> None:
        contender.call(native)
        torch.cuda.synchronize()

    return call


def _undisturbed(call: Callable[[], Any], calls: int) -> tuple[float, float]:
    """Median milliseconds and page faults per call, without any profiler."""
    for _ in range(3):
        call()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    times = []
    for _ in range(calls):
        began = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - began)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    return statistics.median(times) / 1e6, faults / calls


OPERATIONS = {"profile": profile}
