"""Why no GPU worked: each gap of the timeline is split by what the host did meanwhile.

A gap ends with some work. Until the host began to launch that work, the host was behind: it loaded data, or it had
waited for the GPU and had to fill the queue anew, or it was in operations, or in none. From then on it is the launch.
Work that was launched before the gap began waited for something else, such as an event or another GPU.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from optimizer.diagnosing.traces.columns import Activity
from optimizer.diagnosing.traces.document import Idle
from optimizer.diagnosing.traces.intervals import Union, both, union
from optimizer.diagnosing.traces.recording import Recording

BLOCKING = re.compile(r"Synchronize$|^(?:cuda|hip)Memcpy(?:WithStream|2D|ToSymbol|FromSymbol|Peer)?$")
# of old traces, where annotations are operations too
NO_OPERATION = ("ProfilerStep#", "Optimizer.", "enumerate(", "##", "nn.Module", "DistributedDataParallel")


def blocking(recording: Recording, launch: np.ndarray) -> np.ndarray:
    """Which calls of the runtime wait for the GPU. Copies from and to pageable memory do, asynchronous or not."""
    texts = recording.names.texts
    by_name = np.array([bool(BLOCKING.search(text)) for text in texts])
    pageable = np.array(["Pageable" in text for text in texts])
    waits = by_name[recording.calls.names()]
    copies = (recording.gpu.activities() == Activity.COPY) & pageable[recording.gpu.names()] & (launch >= 0)
    waits[launch[copies]] = True
    return np.asarray(waits)


def idle(causes: Mapping[str, np.ndarray]) -> Idle:
    """`causes`: as `by_gap` gives them."""
    return Idle(**{f"{cause}_ms": max(0.0, float(us.sum())) / 1000 for cause, us in causes.items()})


def by_gap(
    recording: Recording, busy: Union, launch: np.ndarray, waits: np.ndarray, loading: Union
) -> dict[str, np.ndarray]:
    """Microseconds of each cause in each gap of `busy`; empty where it has none."""
    gaps = busy.gaps()
    if not len(gaps.starts):
        return {}
    starts, calls = recording.gpu.starts(), recording.calls
    order = np.argsort(starts, kind="stable")
    ending = order[np.searchsorted(starts[order], gaps.ends, side="left")]
    launched_by = launch[ending]
    known = launched_by >= 0
    launched = np.where(known, calls.starts()[launched_by], gaps.ends) if len(calls) else gaps.ends
    queued = launched < gaps.starts
    launched = np.clip(launched, gaps.starts, gaps.ends)
    launchers = np.unique(calls.threads()[launch[launch >= 0]])
    waiting = _of_threads(recording, launchers, waits)
    at_work = both(_operations(recording, launchers), _of_threads(recording, launchers, np.ones(len(calls), bool)))

    data = loading.within(gaps.starts, launched)
    behind = launched - gaps.starts - data
    after_wait = waiting.covers(gaps.starts)
    working = both(at_work, loading).within(gaps.starts, launched) - data
    since_launch = gaps.ends - launched
    return {
        "data_loading": data,
        "synchronization": np.where(after_wait, behind, 0.0),
        "host_operations": np.where(after_wait, 0.0, working),
        "host_other": np.where(after_wait, 0.0, behind - working),
        "launching": np.where(queued, 0.0, since_launch),
        "queued": np.where(queued, since_launch, 0.0),
    }


def _of_threads(recording: Recording, threads: np.ndarray, which: np.ndarray) -> Union:
    """Calls of these threads."""
    calls = recording.calls
    chosen = which & np.isin(calls.threads(), threads)
    return union(calls.starts()[chosen], calls.ends()[chosen])


def _operations(recording: Recording, threads: np.ndarray) -> Union:
    operations = recording.operations
    real = np.array([not text.startswith(NO_OPERATION) for text in recording.names.texts])
    chosen = real[operations.names()] & np.isin(operations.threads(), threads)
    return union(operations.starts()[chosen], operations.ends()[chosen])


def launch_delay_us(recording: Recording, busy: Union, launch: np.ndarray) -> float | None:
    """Median time from the launch to its work where the GPU had nothing else to do."""
    starts = recording.gpu.starts()
    begins_gap = np.isin(starts, busy.starts[1:]) & (launch >= 0)
    if not begins_gap.any():
        return None
    launched = recording.calls.starts()[launch[begins_gap]]
    ends = busy.ends[np.searchsorted(busy.starts, starts[begins_gap], side="left") - 1]
    delays = (starts[begins_gap] - launched)[launched >= ends]
    return float(np.median(delays)) if len(delays) else None


def launch_blocking_share(recording: Recording, launch: np.ndarray) -> float | None:
    """Of the kernels whose launch is known: for how many the launch returned only after the kernel's end."""
    gpu = recording.gpu
    chosen = (gpu.activities() == Activity.KERNEL) & (launch >= 0)
    if not chosen.any():
        return None
    return float((recording.calls.ends()[launch[chosen]] >= gpu.ends()[chosen]).mean())
