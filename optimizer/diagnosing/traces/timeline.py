"""The span of one rank in equal bins: what the GPU did in each, and why it did nothing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from optimizer.diagnosing.traces.document import BINS, Timeline
from optimizer.diagnosing.traces.intervals import Union, both

DIGITS = 3


def timeline(busy: Union, communication: Union, others: Union, causes: Mapping[str, np.ndarray]) -> Timeline | None:
    """`others`: kernels that are no communication. `causes`: microseconds of each cause in each gap of `busy`.

    None where the span has no length.
    """
    edges = np.linspace(busy.starts[0], busy.ends[-1], BINS + 1)
    width = float(edges[1] - edges[0])
    if width <= 0:
        return None
    computing, running = _in_bins(others, edges), _in_bins(both(communication, others), edges)
    gaps = busy.gaps()
    return Timeline(
        bin_ms=width / 1000,
        compute=_shares(computing, width),
        communication=_shares(running - computing, width),
        copies=_shares(_in_bins(busy, edges) - running, width),
        idle={cause: _shares(_spread(gaps, us, edges), width) for cause, us in causes.items()},
    )


def _in_bins(union: Union, edges: np.ndarray) -> np.ndarray:
    return np.diff(union.before(edges))


def _spread(gaps: Union, us: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Each gap's time spread evenly over it: what lies before each edge rises along the gaps and rests between them."""
    moments = np.column_stack((gaps.starts, gaps.ends)).ravel()
    done = np.cumsum(us)
    before = np.column_stack((done - us, done)).ravel()
    return np.diff(np.interp(edges, moments, before))


def _shares(us: np.ndarray, width: float) -> list[float]:
    return [round(float(share), DIGITS) for share in np.clip(us / width, 0.0, 1.0)]
