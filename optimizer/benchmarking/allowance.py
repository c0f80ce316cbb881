"""Contenders that keep more cores busy than they were given threads: serving will not grant them those.

Seen from outside, by processor time over a burst. Not where a process was given as many threads as there are cores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.errors import FuseworksError

if TYPE_CHECKING:
    from optimizer.benchmarking.bursts import Entrant

SLACK_CORES = 0.5
MIN_BURSTS = 4


def cpu_ns(child: Any) -> int | None:
    """None for a child that is no process of its own."""
    read = getattr(child, "cpu_ns", None)
    return None if read is None else int(read())


def greedy(entrants: Mapping[str, Entrant]) -> Iterator[tuple[str, FuseworksError]]:
    """Those over their allowance, by the median over their bursts, with the error that ends them."""
    for name, one in entrants.items():
        shares = [burst.cpu_ns / burst.outside_ns for burst in one.bursts if burst.cpu_ns is not None]
        if one.threads is None or len(shares) < MIN_BURSTS:
            continue
        cores = float(np.median(shares))
        if cores > one.threads + SLACK_CORES:
            error = FuseworksError(
                "benchmarking:user:threads", place=name, name=name, cores=round(cores, 2), threads=one.threads
            )
            yield name, error
