"""The light way to record: no sandbox, no fresh processes, one thread, and CPU time in place of the clock's.

For a machine whose cores others want too: there the time on the wall says nothing, and the CPU time of one thread
little less than it does alone. The graph runs in two forks of one process, one of them with its allocator pinned, in
bursts that take turns. What it cannot tell: threads, denormals, huge pages. Our own models only: their code runs here.
"""

from __future__ import annotations

import ctypes
import math
import os
import resource
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import multiprocessing

from benchmarks.predictions.recording import Header, RecordedGain, RecordedVariant
from benchmarks.predictions.variants import Variant
from optimizer import inputs
from optimizer.benchmarking.load import busy
from optimizer.capturing.torch_module import load_module
from optimizer.capturing.torch_outline import outline
from optimizer.capturing.torch_upload import Captured, capture_upload
from optimizer.diagnosing.base import Evidence, diagnosed, key_of
from optimizer.errors import FuseworksError, load_catalogue
from optimizer.optimizing.any_pass import steps_of
from optimizer.optimizing.base import run_passes
from optimizer.optimizing.graph import Graph
from optimizer.profiling.table import joined
from optimizer.profiling.torch_graph import profile_graph
from optimizer.result import Finding, Profile, Rewrite
from optimizer.runtime_settings import TOP_PAD_BYTES

PROFILE_CALLS = 9
LEAST_CALLS, MOST_CALLS, BURST_S = 2, 40, 0.06
WARM_UP_CALLS = 4
ORIGINAL = ""
NOT_MEASURED = "not measured in the light way"
NOT_ALONE = "the pass does nothing to the graph by itself"
TRIM, PAD, MAPS = -1, -2, -4  # of glibc's mallopt
Call = Callable[[], Any]


class _Fork(NamedTuple):
    process: Any
    wire: Connection


def record_light(variant: Variant, head: Header) -> RecordedVariant:
    """A variant that fails is recorded as lost: scaled numbers need not fit together."""
    load_catalogue()
    at, began = datetime.now(UTC).replace(microsecond=0), time.monotonic()
    kept = RecordedVariant(model=variant.model, factors=variant.factors, at=at, seconds=0.0, beside_other_work=busy())
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory(prefix="fuseworks-predictions-") as folder, torch.no_grad():
            kept = _measured(variant, Path(folder), kept, head)
    except FuseworksError as error:
        kept = kept.model_copy(update={"lost": f"{error.id}: {error.message}"[:300]})
    return kept.model_copy(update={"seconds": round(time.monotonic() - began, 1)})


def _measured(variant: Variant, folder: Path, kept: RecordedVariant, head: Header) -> RecordedVariant:
    file = folder / f"{variant.model}.py"
    file.write_text(variant.source)
    captured = capture_upload(load_module(file, "py", folder, head.seed), None, head.seed)
    rng = np.random.default_rng(head.seed)
    drawn = inputs.draw(captured.workload, captured.workload.sizes(), rng)
    tensors = [torch.from_numpy(array.copy()) for array in drawn]
    original = _call(Graph.from_exported(captured.program), captured, tensors)
    profile = _profile(captured, tensors, original)
    rewrites = run_passes(Graph.from_exported(captured.program))
    evidence = Evidence(
        profile=profile,
        rewrites=rewrites,
        dynamic_batch=bool(captured.workload.dims),
        outline=outline(captured.program, captured.workload),
        workload=captured.workload,
    )
    findings = [one for one in diagnosed(evidence).findings if one.gain is not None and one.mended_by]
    calls = {ORIGINAL: original}
    for finding in findings:
        graph = _rewritten(captured, finding, rewrites)
        if graph is not None:
            calls[key_of(finding)] = _call(graph, captured, tensors)
    logs = _log_speedups(findings, calls, head, rng)
    gains = [_recorded(finding, logs.get(key_of(finding)), calls) for finding in findings]
    operations = Counter(row.op for row in evidence.outline.nodes if row.kind == "call") if evidence.outline else {}
    known = {"operations": dict(operations), "call_ms": profile.unprofiled_ms, "gains": gains}
    return kept.model_copy(update={**known, "load_averages": [round(os.getloadavg()[0], 2)]})


def _call(graph: Graph, captured: Captured, tensors: Sequence[torch.Tensor]) -> Call:
    graph.module.recompile()
    args, kwargs = torch.utils._pytree.tree_unflatten(list(tensors), captured.program.call_spec.in_spec)
    module: Any = graph.module
    return lambda: module(*args, **kwargs)


def _profile(captured: Captured, tensors: Sequence[torch.Tensor], call: Call) -> Profile:
    module: Any = captured.program.module()
    rows, profiled_ms = profile_graph(module, tensors, PROFILE_CALLS)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    times_ms = [_cpu_ns(call, 1) / 1e6 for _ in range(PROFILE_CALLS)]
    faults = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / PROFILE_CALLS
    operations = joined(rows)
    return Profile(
        operations=operations,
        total_ms=sum(row.self_ms for row in operations),
        page_faults_per_call=faults,
        profiled_ms=profiled_ms,
        unprofiled_ms=statistics.median(times_ms),
    )


def _rewritten(captured: Captured, finding: Finding, rewrites: Sequence[Rewrite]) -> Graph | None:
    """None where the remedy is no pass, or a pass that applies only after others."""
    wanted = [step["pass"] for step in finding.mended_by if "pass" in step]
    steps = [{"pass": r.pass_, "options": r.options} for r in rewrites if r.pass_ in wanted]
    if not steps:
        return None
    graph = Graph.from_exported(captured.program)
    return graph if all(rewrite.applied for rewrite in run_passes(graph, steps_of(steps))) else None


def _log_speedups(
    findings: Sequence[Finding], calls: dict[str, Call], head: Header, rng: np.random.Generator
) -> dict[str, list[float]]:
    """One a set: the mean over its rounds. Passes with the allocator pinned on both sides."""
    faults = [key_of(one) for one in findings if "setting allocator" in key_of(one)]
    if len(calls) == 1 and not faults:
        return {}
    forks = {pinned: _fork(calls, pinned) for pinned in (False, True)}
    contenders = [(True, name) for name in calls] + ([(False, ORIGINAL)] if faults else [])
    try:
        count = _calls_per_burst(_burst(forks[True], ORIGINAL, WARM_UP_CALLS) / WARM_UP_CALLS)
        for pinned, name in contenders:
            _burst(forks[pinned], name, WARM_UP_CALLS)
        found: dict[str, list[float]] = {}
        for _ in range(head.sets):
            rounds: dict[tuple[bool, str], list[float]] = {one: [] for one in contenders}
            for _ in range(head.rounds):
                for at in rng.permutation(len(contenders)):
                    one = contenders[at]
                    rounds[one].append(math.log(_burst(forks[one[0]], one[1], count)))
            # the median: under load a burst is disturbed now and then, and then by much
            times = {one: statistics.median(logs) for one, logs in rounds.items()}
            for name in calls:
                if name != ORIGINAL:
                    found.setdefault(name, []).append(times[True, ORIGINAL] - times[True, name])
            for key in faults:
                found.setdefault(key, []).append(times[False, ORIGINAL] - times[True, ORIGINAL])
        return found
    finally:
        for fork in forks.values():
            fork.wire.close()
            fork.process.join(5)
            fork.process.kill()


def _fork(calls: dict[str, Call], pinned: bool) -> _Fork:
    # one thread: nothing of torch's own runs beside it that a fork would lose
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(calls, pinned, mine, theirs), daemon=True)
    process.start()
    theirs.close()
    return _Fork(process, mine)


def _serve(calls: dict[str, Call], pinned: bool, mine: Connection, theirs: Connection) -> None:
    """Answers how long so many calls of one of them took, until nobody asks any more."""
    mine.close()
    if pinned:
        library = ctypes.CDLL(None)
        for setting, value in ((TRIM, 2**31 - 1), (PAD, TOP_PAD_BYTES), (MAPS, 0)):
            library.mallopt(setting, value)
    with torch.no_grad():
        while True:
            try:
                name, count = theirs.recv()
            except EOFError:
                return
            theirs.send(_cpu_ns(calls[name], count))


def _burst(fork: _Fork, name: str, count: int) -> float:
    """CPU nanoseconds of so many calls."""
    fork.wire.send((name, count))
    answer: int = fork.wire.recv()
    return float(answer)


def _calls_per_burst(call_ns: float) -> int:
    return int(min(MOST_CALLS, max(LEAST_CALLS, BURST_S * 1e9 / max(call_ns, 1.0))))


def _cpu_ns(call: Call, count: int) -> int:
    call()  # what another burst has put out of the caches comes back
    began = time.thread_time_ns()
    for _ in range(count):
        call()
    return time.thread_time_ns() - began


def _recorded(finding: Finding, logs: list[float] | None, calls: dict[str, Call]) -> RecordedGain:
    key, gain = key_of(finding), finding.gain
    assert gain is not None
    low, high = gain.uncorrected or (gain.low, gain.high)
    is_pass = any("pass" in step for step in finding.mended_by)
    why = "" if logs else NOT_ALONE if is_pass and key not in calls else NOT_MEASURED
    kept = [round(log, 5) for log in logs or ()]
    return RecordedGain(key=key, low=low, high=high, cost_share=finding.cost_share, log_speedups=kept, not_measured=why)
