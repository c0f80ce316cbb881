"""The child's side of measuring: stages fresh inputs, warms up, times each call of a burst, hands over the outputs.

The coordinator's clock checks the bursts from outside. On a GPU each call ends with a synchronisation, and events give
the device's own time beside the wall clock.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import optimizer.benchmarking.errors  # noqa: F401  (fills the catalogue)
from optimizer.benchmarking import gauges
from optimizer.children.session import Session
from optimizer.verifying.child import split

Answer = tuple[dict[str, Any], list[np.ndarray]]
Timed = tuple[list[Any], list[int], np.ndarray | None]  # answers, times, and the device's own times on a GPU
STABLE_SHARE = 0.03
WINDOW_CALLS = 5
MIN_WARM_CALLS = 3 * WINDOW_CALLS


def stage(session: Session, request: dict[str, Any], arrays: list[np.ndarray]) -> Answer:
    """`{calls: k, warm: w}` with k + w input sets: k are kept for `go`; the last w are called at once, untimed.

    The w calls bring weights back into the caches after a pause; they have inputs of their own, so that no timed call
    has been seen before. Old inputs and outputs are dropped here, outside of the timing. Calls that go on from one
    another (training steps) begin anew with each burst, so that nothing drifts.
    """
    contender = session.state["contender"]
    session.state["staged"] = session.state["answers"] = None
    calls, warm = int(request["calls"]), int(request.get("warm", 0))
    native = [contender.stage(inputs) for inputs in split(arrays, calls + warm)]
    for extra in native[calls:]:
        contender.call(extra)
    in_sequence = bool(getattr(contender, "in_sequence", False))
    if in_sequence:
        contender.reset()
    _synchronise(session)
    session.state["staged"] = native[:calls]
    if session.state.get("frozen"):
        gc.collect()
    return {"in_sequence": in_sequence}, []


def warm_up(session: Session, request: dict[str, Any], arrays: list[np.ndarray]) -> Answer:
    """`{max_s}`: calls the staged inputs until two windows of calls agree, or the time is over."""
    call, staged = session.state["contender"].call, session.state["staged"]
    deadline = time.perf_counter() + float(request["max_s"])
    taken: list[int] = []
    stable = False
    while not stable and (time.perf_counter() < deadline or len(taken) < 2):
        started = time.perf_counter_ns()
        call(staged[len(taken) % len(staged)])
        _synchronise(session)
        taken.append(time.perf_counter_ns() - started)
        if len(taken) >= MIN_WARM_CALLS and len(taken) % WINDOW_CALLS == 0:
            last, before = np.median(taken[-WINDOW_CALLS:]), np.median(taken[-2 * WINDOW_CALLS : -WINDOW_CALLS])
            stable = bool(abs(last - before) <= STABLE_SHARE * before)
    # what is loaded by now lives as long as the process: frozen, it costs the collections between bursts nothing
    gc.collect()
    gc.freeze()
    session.state["frozen"] = True
    return {
        "calls": len(taken),
        "first_ns": taken[0],
        "median_ns": int(np.median(taken[-WINDOW_CALLS:])),
        "stable": stable,
        "clock_ns": gauges.clock_cost_ns(),
    }, []


def go(session: Session, request: dict[str, Any], arrays: list[np.ndarray]) -> Answer:
    """`{read: indices}`: runs the staged calls once, timing each. Outputs stay in native form until the next `stage`.

    The answers of `read` are read at once, each before the next call, outside of what is timed: work that is left to a
    thread is not done by then, and work that is left to the reading shows in `read_ns`.
    """
    staged, contender = session.state["staged"], session.state["contender"]
    on_gpu = _on_gpu(session)
    reading = Reading(frozenset(int(index) for index in request.get("read") or []))
    faults, waited = gauges.page_faults(), gauges.run_queue_wait_ns()
    gc_was_on = gc.isenabled()
    gc.disable()
    try:
        answers, times, device_ns = (_timed_on_gpu if on_gpu else _timed)(contender, staged, reading)
    finally:
        if gc_was_on:
            gc.enable()
    waited_after = gauges.run_queue_wait_ns()
    fields = {
        "total_ns": sum(times),
        "read_ns": reading.ns,
        "page_faults": gauges.page_faults() - faults,
        "wait_ns": None if waited is None or waited_after is None else waited_after - waited,
    }
    session.state["answers"], session.state["read"] = answers, reading.taken
    taken = np.asarray(times, dtype=np.int64)
    return fields, [taken] if device_ns is None else [taken, device_ns]


@dataclass
class Reading:
    """Answers that are read between the calls: `taken` by index, and what that took."""

    wanted: frozenset[int]
    taken: dict[int, list[np.ndarray]] = field(default_factory=dict)
    ns: int = 0

    def take(self, index: int, contender: Any, answer: Any) -> None:
        """Of an answer that is costly to read as a whole (a training step's) only its first outputs."""
        read = getattr(contender, "first_outputs", contender.outputs)
        self.taken[index] = [np.array(output) for output in read(answer)]


def _timed(contender: Any, staged: list[Any], reading: Reading) -> Timed:
    clock, call, wanted = time.perf_counter_ns, contender.call, reading.wanted
    count = len(staged)
    answers: list[Any] = [None] * count
    times = [0] * count
    begun = clock()
    for index in range(count):
        answers[index] = call(staged[index])
        ended = clock()
        times[index] = ended - begun
        begun = ended
        if index in wanted:
            reading.take(index, contender, answers[index])
            begun = clock()
            reading.ns += begun - ended
    return answers, times, None


def _timed_on_gpu(contender: Any, staged: list[Any], reading: Reading) -> Timed:
    import torch

    clock, call, count = time.perf_counter_ns, contender.call, len(staged)
    event: Any = torch.cuda.Event
    events = [(event(enable_timing=True), event(enable_timing=True)) for _ in staged]
    answers: list[Any] = [None] * count
    times = [0] * count
    torch.cuda.synchronize()
    begun = clock()
    for index in range(count):
        begin, end = events[index]
        begin.record()
        answers[index] = call(staged[index])
        end.record()
        # the whole device, not the event alone: work on a side stream must not escape the clock
        torch.cuda.synchronize()
        ended = clock()
        times[index] = ended - begun
        begun = ended
        if index in reading.wanted:
            reading.take(index, contender, answers[index])
            begun = clock()
            reading.ns += begun - ended
    device_ns = np.asarray([int(b.elapsed_time(e) * 1e6) for b, e in events], dtype=np.int64)
    return answers, times, device_ns


def outputs(session: Session, request: dict[str, Any], arrays: list[np.ndarray]) -> Answer:
    """`{indices}`: the answers of those calls of the last `go`, one after another, as they were read then (where they
    were). `changed`: those that are others by now."""
    contender, answers, read = session.state["contender"], session.state["answers"], session.state["read"]
    taken, changed = [], []
    for index in map(int, request["indices"]):
        now = [np.array(o) for o in contender.outputs(answers[index])]
        then = read.get(index, now)
        then = [*then, *now[len(then) :]]
        if not all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(then, now, strict=True)):
            changed.append(index)
        taken.append([np.array(o) for o in then])
    fields = {"outputs_per_set": len(taken[0]) if taken else 0, "changed": changed}
    return fields, [output for answer in taken for output in answer]


def memory(session: Session, request: dict[str, Any], arrays: list[np.ndarray]) -> Answer:
    allocator = None
    if _on_gpu(session):
        import torch

        allocator = torch.cuda.max_memory_allocated()
    rss, peak = gauges.resident_bytes()
    return {"rss_bytes": rss, "peak_rss_bytes": peak, "allocator_peak_bytes": allocator}, []


def roofs(session: Session, request: dict[str, Any], arrays: list[np.ndarray]) -> Answer:
    """`{threads}`, in a trusted child: what this machine can do at best."""
    from optimizer.benchmarking.roofs import measure

    return measure(int(request["threads"])), []


def _on_gpu(session: Session) -> bool:
    device = getattr(session.state["contender"], "device", None) or session.state.get("device", "cpu")
    return str(device).startswith("cuda")


def _synchronise(session: Session) -> None:
    if _on_gpu(session):
        import torch

        torch.cuda.synchronize()


OPERATIONS = {"stage": stage, "warm_up": warm_up, "go": go, "outputs": outputs, "memory": memory, "roofs": roofs}
