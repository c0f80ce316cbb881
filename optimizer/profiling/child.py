"""Operation `profiling.profile`: where a call of a contender spends its time. Runs in a child of its own."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from optimizer.children.session import Session
from optimizer.profiling import levers
from optimizer.profiling.document import Profile
from optimizer.profiling.table import joined, with_roofs

DEFAULT_CALLS = 10


def profile(
    session: Session, request: dict[str, Any], arrays: list[np.ndarray]
) -> tuple[dict[str, Any], list[np.ndarray]]:
    """{calls, marked?, roofs?, levers?, timeline?}, one input set → {profile}. Follows a `compiling.load`.

    `marked`: the artifact that is looked into in place of the loaded one. What is not looked into is timed beside it,
    so that the cost of looking is known. `levers`: also what settings of the process would change, of a CPU's process.
    `timeline`: also when each operation of one call ran.
    """
    began = time.perf_counter()
    calls = int(request.get("calls") or DEFAULT_CALLS)
    contender, loaded = session.state["contender"], session.state["loaded"]
    unprofiled_ms, faults = _undisturbed(_waited(contender, contender.stage(arrays)), calls)
    artifact = Path(request["marked"]) if request.get("marked") else loaded.artifact
    # it stages inputs of its own: a contender that writes into its inputs has spoilt the first ones
    found = loaded.backend.profile(artifact, loaded.options, loaded.context, arrays, calls)
    operations = joined(found.rows)
    answer = Profile(
        operations=operations,
        total_ms=sum(row.self_ms for row in operations),
        page_faults_per_call=faults,
        how_obtained=loaded.backend.profiled_by,
        profiled_ms=found.call_ms,
        unprofiled_ms=unprofiled_ms,
        overhead=found.call_ms / unprofiled_ms if unprofiled_ms else None,
        phases=list(found.phases),
        memory=found.memory,
        timeline=list(found.timeline) if request.get("timeline") else [],
    )
    if answer.memory is not None and unprofiled_ms:
        answer.memory.overhead = answer.memory.profiled_ms / unprofiled_ms
    if request.get("levers") and contender.device == "cpu":
        call = _waited(contender, contender.stage(arrays))
        answer.idle_cpu_ms_per_call = levers.idle_cpu_ms(call)
        if loaded.backend.name == "eager":
            answer.threads_ms, answer.denormals_gain = levers.of_torch(call, loaded.context.threads, unprofiled_ms)
    if request.get("roofs"):
        answer = with_roofs(answer, request["roofs"])
    answer.took_s = time.perf_counter() - began
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
