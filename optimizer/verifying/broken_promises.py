"""Inputs that break what the workload promises (`contracts`): a rewrite that relies on the promise must notice each.

Every set differs from one that keeps the promise in as little as a wrong check may overlook: one row, one input. No row
of NaN is among them: vectorised engines drop a NaN in a ReLU, on some processors only, and that is no broken promise.
"""

from __future__ import annotations

import numpy as np

from optimizer.inputs import draw
from optimizer.spec import Workload
from optimizer.verifying.edges import EdgeSet

MAX_INPUTS = 8  # that are changed one at a time


def broken_promises(workload: Workload, rng: np.random.Generator) -> list[EdgeSet]:
    """None without a contract, or where the batch cannot hold two rows. Values stay within what inputs declare."""
    promised = workload.same_over_batch()
    sizes = _of_two_rows(workload, promised)
    if sizes is None:
        return []
    kept = draw(workload, sizes, rng)
    free = draw(workload.model_copy(update={"contracts": []}), sizes, rng)
    places = [place for place, spec in enumerate(workload.inputs) if spec.name in promised]
    rows = kept[places[0]].shape[0]
    sets: list[EdgeSet] = []

    def add(name: str, changed: dict[int, np.ndarray]) -> None:
        arrays = [changed.get(place, array) for place, array in enumerate(kept)]
        if any(not np.array_equal(new, kept[place], equal_nan=new.dtype.kind == "f") for place, new in changed.items()):
            sets.append(EdgeSet(name, "edge", sizes, arrays, breaks_promise=True))

    add("promise broken: another last row", {p: _with_row(kept[p], rows - 1, free[p]) for p in places})
    add("promise broken: another row in the middle", {p: _with_row(kept[p], rows // 2, free[p]) for p in places})
    add("promise broken: another first row", {p: _with_row(kept[p], 0, free[p]) for p in places})
    add("promise broken: rows of their own", {p: free[p] for p in places})
    for p in places[:MAX_INPUTS]:
        add(f"promise broken: {workload.inputs[p].name} alone", {p: _with_row(kept[p], rows - 1, free[p])})
    return sets


def _of_two_rows(workload: Workload, promised: list[str]) -> dict[str, int] | None:
    """The measured sizes, with a larger batch where that is one row."""
    sizes = workload.sizes()
    shapes = [spec.shape for spec in workload.inputs if spec.name in promised]
    if not shapes or not all(shapes):
        return None
    batch = shapes[0][0]
    if isinstance(batch, str) and sizes[batch] < 2:
        sizes[batch] = min(workload.dims[batch].max, 3)
    rows = sizes[batch] if isinstance(batch, str) else batch
    return sizes if rows >= 2 else None


def _with_row(kept: np.ndarray, row: int, other: np.ndarray) -> np.ndarray:
    """With row `row` from the first row of `other` that differs from what is kept."""
    changed = kept.copy()
    differing = [r for r in range(len(other)) if not np.array_equal(other[r], kept[0])]
    if differing:
        changed[row] = other[differing[0]]
    return changed
