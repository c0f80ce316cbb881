"""What the kernel says about this process: page faults, memory, time spent waiting for a core, the clock's own cost."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import numpy as np


def page_faults() -> int:
    """Minor and major faults of all threads so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_minflt + usage.ru_majflt


def run_queue_wait_ns() -> int | None:
    """Time that this process' threads were ready to run and did not; None where the kernel does not say."""
    total = 0
    try:
        for task in Path("/proc/self/task").iterdir():
            try:
                total += int((task / "schedstat").read_text().split()[1])
            except ProcessLookupError:
                continue
    except (OSError, IndexError, ValueError):
        return None
    return total


def own_wait_ns() -> int:
    """The same for the calling thread alone; 0 where the kernel does not say."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def resident_bytes() -> tuple[int, int]:
    """Resident now, and at most so far."""
    found = {}
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in {"VmRSS", "VmHWM"}:
            found[name] = int(value.split()[0]) * 1024
    return found["VmRSS"], found["VmHWM"]


def clock_cost_ns() -> int:
    """What two readings of the clock lie apart with nothing between them."""
    clock = time.perf_counter_ns
    readings = [0] * 1001
    for index in range(1001):
        readings[index] = clock()
    return int(np.median(np.diff(readings)))
