"""What settings of the process would change, measured in the process that is profiled: threads, spinning, denormals.

Figures that say what is worth a candidate, and no verdict: one process, a few calls, no interleaving with another.
Threads and denormals for torch alone, whose number of threads can be changed within a process.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from optimizer import denormals

LEAST_CALLS, MOST_CALLS = 3, 7
BLOCK_S = 0.4  # for one setting
IDLE_CALLS, IDLE_S = 5, 0.02

Call = Callable[[], Any]


class Levers(NamedTuple):
    """Milliseconds of a call by number of threads; its time on one thread with denormals over that without, the smaller
    of two comparisons."""

    threads_ms: dict[int, float]
    denormals_gain: float | None


def idle_cpu_ms(call: Call) -> float:
    """The CPU time that this process' threads use after a call, while nothing is asked of them."""
    used = []
    for _ in range(IDLE_CALLS):
        call()
        before = time.process_time_ns()
        time.sleep(IDLE_S)
        used.append(time.process_time_ns() - before)
    return statistics.median(used) / 1e6


def thread_counts(threads: int) -> list[int]:
    """Those that are tried beside `threads`: one, and half."""
    return sorted({1, max(1, threads // 2)} - {threads})


def of_torch(call: Call, threads: int, call_ms: float) -> Levers:
    """Leaves threads and denormals as they were."""
    import torch

    calls = int(min(MOST_CALLS, max(LEAST_CALLS, BLOCK_S * 1e3 / max(call_ms, 1e-3))))
    found = {}
    try:
        for count in [threads, *thread_counts(threads)]:
            torch.set_num_threads(count)
            found[count] = _median_ms(call, calls)
        torch.set_num_threads(1)  # the processor's flag is a thread's own: all work is on this one
        gain = _denormals_gain(call, calls)
    finally:
        torch.set_num_threads(threads)
    return Levers(found, gain)


def _denormals_gain(call: Call, calls: int) -> float | None:
    if denormals.unavailable() is not None:
        return None
    gains = []
    try:
        for _ in range(2):
            denormals.flush(False)
            kept_ms = _median_ms(call, calls)
            denormals.flush(True)
            gains.append(kept_ms / _median_ms(call, calls))
    finally:
        denormals.flush(False)
    return min(gains)


def _median_ms(call: Call, calls: int) -> float:
    call()
    times = []
    for _ in range(calls):
        began = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - began)
    return statistics.median(times) / 1e6
