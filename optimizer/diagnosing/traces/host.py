"""The host's side: operations inside operations, which launch belongs to which, and what each spends itself."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import numpy as np

from optimizer.diagnosing.traces.columns import CallColumns, Columns, GpuColumns

# Operations lie some twenty deep. A trace that was made to be slow has them a million deep, and finds no owner then.
MAX_DEPTH = 500


@dataclass(frozen=True)
class Nesting:
    """Sorted by thread and start. `parent`: position in this order, -1 at the top. `own_us` leaves out the children."""

    order: np.ndarray
    parent: array[int]
    own_us: np.ndarray
    threads: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    def innermost(self, threads: np.ndarray, moments: np.ndarray) -> list[int]:
        """The innermost operation at each moment, as an index into the columns; -1 outside of all."""
        firsts = {int(t): int(np.searchsorted(self.threads, t, side="left")) for t in np.unique(threads)}
        lasts = {thread: int(np.searchsorted(self.threads, thread, side="right")) for thread in firsts}
        ends, parent, order = compact(self.ends), self.parent, self.order
        found = []
        for thread, moment in zip(threads.tolist(), moments.tolist(), strict=True):
            first, last = firsts[thread], lasts[thread]
            at = first + int(np.searchsorted(self.starts[first:last], moment, side="right")) - 1
            for _ in range(MAX_DEPTH):
                if at < first or ends[at] >= moment:
                    break
                at = parent[at]
            else:
                at = -1
            found.append(int(order[at]) if at >= first else -1)
        return found


def nest(operations: Columns) -> Nesting:
    threads, starts, durations = operations.threads(), operations.starts(), operations.durations()
    order = np.lexsort((-durations, starts, threads))
    threads, starts, ends = threads[order], starts[order], operations.ends()[order]
    parent, own_us = array("i", [-1]) * len(order), compact(durations[order])
    open_ones: list[int] = []
    ends_, current = compact(ends), None
    for at, (thread, start) in enumerate(zip(array("q", threads.tobytes()), compact(starts), strict=True)):
        if thread != current:
            current, open_ones = thread, []
        while open_ones and ends_[open_ones[-1]] <= start:
            open_ones.pop()
        if open_ones:
            above = open_ones[-1]
            parent[at] = above
            # a child that ends after its parent (times are rounded) takes no more than the parent had left
            own_us[above] -= min(ends_[at], ends_[above]) - start
        open_ones.append(at)
    return Nesting(
        order, parent, np.maximum(np.frombuffer(own_us) if own_us else np.empty(0), 0), threads, starts, ends
    )


def compact(values: np.ndarray) -> array[float]:
    """Fast to index one by one as a list is, at a quarter of its memory: there are millions."""
    return array("d", values.tobytes())


def launches(gpu: GpuColumns, calls: CallColumns) -> np.ndarray:
    """For each GPU event the index of the call that launched it, or -1."""
    wanted, known = gpu.correlations(), calls.correlations()
    if not len(known):
        return np.full(len(wanted), -1)
    order = np.argsort(known, kind="stable")
    at = np.minimum(np.searchsorted(known[order], wanted), len(known) - 1)
    found = order[at]
    return np.asarray(np.where((known[found] == wanted) & (wanted >= 0), found, -1))
