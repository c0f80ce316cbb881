"""Whether other work wants this machine's cores at this moment.

Counts the tasks that run or wait to run, while the contenders are stopped: so neither what we built or started a minute
ago counts (as it does in a load average, or in a pressure averaged over ten seconds), nor anything that a child of ours
could start to be excused by. Not seen: a hypervisor that takes the cores away.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

SAMPLES, APART_S = 8, 0.01
SHARE = 0.25  # of the cores that we may use: less than this is the hum of any machine


def busy() -> bool:
    """Takes some 70 ms. Never on a system that has no /proc/loadavg."""
    return crowded(others_running(), cores(), os.cpu_count() or 1)


def others_running(read: Callable[[], str] | None = None, samples: int = SAMPLES, apart_s: float = APART_S) -> float:
    """Tasks other than this thread that ran or waited for a core, on average over a few looks. `read` gives the text of
    /proc/loadavg."""
    counts = []
    for look in range(samples):
        if look:
            time.sleep(apart_s)
        try:
            counts.append(runnable((read or Path("/proc/loadavg").read_text)()) - 1)
        except (OSError, IndexError, ValueError):
            return 0.0
    return max(0.0, sum(counts) / len(counts))


def runnable(loadavg: str) -> int:
    """The tasks that run or could: `3` of `0.20 0.18 0.12 3/117 7476`. The reader is one of them."""
    return int(loadavg.split()[3].partition("/")[0])


def crowded(others: float, usable: int, present: int) -> bool:
    """Whether so many others leave fewer than `usable` of the `present` cores to us, by more than a hum."""
    return others > present - usable + SHARE * usable


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))
