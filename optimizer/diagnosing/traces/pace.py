"""How long a step's products took, beside its fast steps: where all slow down together, the GPU's clock has dropped.

Of kernels that compute (products, convolutions, attention), which follow the clock, and that every step calls equally
often; each beside the step that ends its own fastest quarter. A step's pace is what four fifths of their time reach at
least, so that one slow kernel is none.
"""

from __future__ import annotations

import numpy as np

from optimizer.diagnosing.traces.columns import Activity
from optimizer.diagnosing.traces.kernel_kinds import kind_of
from optimizer.diagnosing.traces.recording import Recording

COMPUTING = ("gemm", "convolution", "attention")
MOST_STEPS, MOST_KERNELS = 1_000, 200
REACHED_BY = 0.2  # of the time, from the lowest on


def paces(recording: Recording, steps: int) -> list[float]:
    """By step; 1 is a fast one. Empty where no kernel is called equally often in each of at least two."""
    if not 2 <= steps <= MOST_STEPS:
        return []
    gpu, texts = recording.gpu, recording.names.texts
    kernels = np.flatnonzero(gpu.activities() == Activity.KERNEL)
    order = kernels[np.argsort(gpu.starts()[kernels], kind="stable")]
    names, durations = gpu.names()[order], gpu.durations()[order]
    found, counts = np.unique(names, return_counts=True)
    even = [name for name, count in zip(found, counts, strict=True) if not count % steps]
    computing = [name for name in even if kind_of(texts[name]) in COMPUTING][:MOST_KERNELS]
    rows = [durations[names == name].reshape(steps, -1).sum(1) for name in computing]
    rows = [row for row in rows if row.min() > 0]
    if not rows:
        return []
    table = np.stack(rows)
    fast = np.sort(table, axis=1)[:, (steps - 1) // 4, None]
    ratios, weights = table / fast, table.sum(1)
    return [round(_reached(ratios[:, step], weights), 4) for step in range(steps)]


def _reached(ratios: np.ndarray, weights: np.ndarray) -> float:
    order = np.argsort(ratios)
    passed = np.cumsum(weights[order]) / weights.sum()
    return float(ratios[order][np.searchsorted(passed, REACHED_BY)])
