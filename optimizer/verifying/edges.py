"""The sets at the edges of what a workload declares: sizes, values, ids and masks that a wrong rewrite is likely to
answer wrongly. Every value stays within what the workload declares. numpy only.

Not here: inputs that break a promise (`broken_promises.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

import numpy as np

from optimizer.inputs import FLOATS, bounds, draw, promised, rounded, travel_dtype
from optimizer.spec import InputSpec, Values, Workload

LARGE_FACTOR, SMALL_FACTOR = 16.0, 2.0**-10
NEAR_FACTOR = 2.0**-5  # nearer, a variance as the mean of squares less the squared mean is lost to rounding
EDGE_BYTES = 256 << 20
EDGE_GROWTH, SURE_GROWTH = 64.0, 8.0
MOST_ALONE = 4  # inputs that are changed while all others stay


class EdgeSet(NamedTuple):
    """`amplifies`: magnitudes are far from the workload's own, where rounding alone may grow. `fine`: a lower precision
    does not hold their differences.

    `growth`: how many times the work of the measured size it may take; `sure`: it is worth that, however long it takes.
    """

    name: str
    kind: Literal["sizes", "edge"]
    sizes: dict[str, int]
    arrays: list[np.ndarray]
    amplifies: bool = False
    growth: float = 1.0
    sure: bool = True
    breaks_promise: bool = False
    fine: bool = False


def edge_sets(
    workload: Workload,
    rng: np.random.Generator,
    *,
    max_bytes: int = EDGE_BYTES,
    max_growth: float = EDGE_GROWTH,
    sure_growth: float = SURE_GROWTH,
) -> list[EdgeSet]:
    """Sets that a wrong rewrite is likely to answer wrongly. Every value stays within what the workload declares.

    A size whose inputs pass `max_bytes`, or whose work would pass `max_growth` times that of the largest served size,
    is lowered to the largest that does not, and its name says so. Those of up to `sure_growth` times it are `sure`, and
    where larger ones are declared one of them has that very size.
    """
    base = workload.sizes()
    sure = {name: _largest_size(workload, name, min(sure_growth, max_growth)) for name in workload.dims}
    sets = [
        EdgeSet(
            name,
            "sizes",
            sizes,
            draw(workload, sizes, rng),
            growth=_growth(workload, sizes),
            sure=all(size <= sure[dim] for dim, size in sizes.items()),
        )
        for name, sizes in _other_sizes(workload, rng, max_bytes, max_growth, sure, min(sure_growth, max_growth))
    ]
    plain = draw(workload, base, rng)

    def add(name: str, changed: Iterable[np.ndarray | None], amplifies: bool = False, fine: bool = False) -> None:
        arrays = [new if new is not None else old.copy() for old, new in zip(plain, changed, strict=True)]
        same = all(np.array_equal(new, old) for new, old in zip(arrays, plain, strict=True))
        if not same:
            sets.append(EdgeSet(name, "edge", base, promised(workload, arrays), amplifies, fine=fine))

    pairs = list(zip(workload.inputs, plain, strict=True))
    add("zeros", (_scaled(spec, old, 0.0) for spec, old in pairs))
    add("small values", (_scaled(spec, old, SMALL_FACTOR) for spec, old in pairs))
    add("large values", (_scaled(spec, old, LARGE_FACTOR) for spec, old in pairs), amplifies=True)
    add("nearly equal values", (_nearly_equal(spec, old) for spec, old in pairs), amplifies=True, fine=True)
    add("all-equal ids", (_ids(spec, old, _one_id) for spec, old in pairs))
    add("duplicate ids", (_ids(spec, old, lambda old, low, top: _two_kinds(old, rng)) for spec, old in pairs))
    add("smallest ids", (_ids(spec, old, _smallest) for spec, old in pairs))
    add("largest ids", (_ids(spec, old, _largest) for spec, old in pairs))
    for name in _one_a_row(workload):
        add(f"one {name} for all", (_ids(spec, old, _one_id) if spec.name == name else None for spec, old in pairs))
    if any(_is_mask(spec) or _is_length(spec) for spec in workload.inputs):
        add("fully masked rows", (_masked(spec, old, 0, every=2) for spec, old in pairs))
        add("masks all zero", (_masked(spec, old, 0, every=1) for spec, old in pairs))
        add("masks all one", (_masked(spec, old, 1, every=1) for spec, old in pairs))
        add("masks with one place", (_one_place(spec, old, 1) for spec, old in pairs))
        add("masks with all places but one", (_one_place(spec, old, 0) for spec, old in pairs))
    return sets


def _other_sizes(
    workload: Workload,
    rng: np.random.Generator,
    max_bytes: int,
    max_growth: float,
    sure: dict[str, int],
    sure_growth: float,
) -> list[tuple[str, dict[str, int]]]:
    base = workload.sizes()
    found: dict[str, dict[str, int]] = {}
    for name, dim in workload.dims.items():
        cap = _largest_size(workload, name, max_growth)
        middle = int(rng.integers(dim.min, min(dim.max, cap) + 1))
        wanted = [dim.min, min(dim.min + 1, dim.max), *dim.serve, middle | 1, min(sure[name], dim.max), dim.max]
        for size in dict.fromkeys(wanted):
            if not dim.min <= size <= dim.max or size == base[name]:
                continue
            fitting = _fitting(workload, {**base, name: size}, name, min(size, cap), max_bytes)
            if fitting != base[name]:
                label = f"{name}={fitting}" + (f" (largest tried; declared up to {size})" if fitting < size else "")
                found.setdefault(label, {**base, name: fitting})
    if len(workload.dims) > 1:
        shortest = {name: dim.min for name, dim in workload.dims.items()}
        found.setdefault("every dimension at its smallest", shortest)
        longest = _longest(workload, max_bytes, sure_growth)
        if longest != base:
            whole = all(longest[name] == dim.max for name, dim in workload.dims.items())
            found.setdefault("every dimension at its largest" + ("" if whole else " (as far as tried)"), longest)
    return list(found.items())


def _longest(workload: Workload, max_bytes: int, max_growth: float) -> dict[str, int]:
    """All dimensions near their largest at once; the work is shared among them."""
    growth = max_growth ** (1 / len(workload.dims))
    while True:
        sizes = {name: min(dim.max, _largest_size(workload, name, growth)) for name, dim in workload.dims.items()}
        if growth <= 1 or (_bytes(workload, sizes) <= max_bytes and _growth(workload, sizes) <= max_growth):
            return sizes if growth > 1 else workload.sizes()
        growth *= 0.75


def _power(workload: Workload, name: str) -> int:
    """Attention's work grows with the square of a length, but only with the batch itself."""
    shape = workload.inputs[0].shape
    return 1 if shape and shape[0] == name else 2


def _largest_size(workload: Workload, name: str, growth: float) -> int:
    served = max(workload.dims[name].serve)
    return max(served, int(served * growth ** (1 / _power(workload, name))))


def _growth(workload: Workload, sizes: dict[str, int]) -> float:
    """Work of `sizes` over that of the measured ones."""
    base = workload.sizes()
    return math.prod((size / base[name]) ** _power(workload, name) for name, size in sizes.items())


def _fitting(workload: Workload, sizes: dict[str, int], name: str, size: int, max_bytes: int) -> int:
    smallest = workload.dims[name].min
    while size > smallest and _bytes(workload, {**sizes, name: size}) > max_bytes:
        size = max(smallest, size * 3 // 4)
    return size


def _bytes(workload: Workload, sizes: dict[str, int]) -> int:
    return sum(math.prod(workload.shape_of(s, sizes)) * travel_dtype(s.dtype).itemsize for s in workload.inputs)


def _is_mask(spec: InputSpec) -> bool:
    values = spec.values or Values()
    if spec.dtype == "bool" or values.bernoulli is not None:
        return True
    return spec.dtype not in FLOATS and values.from_ == 0 and values.below in (None, 2) and values.uniform is None


def _is_length(spec: InputSpec) -> bool:
    """A vector of integers, one per row: a length or an id; either way its ends are worth a set."""
    return spec.dtype not in FLOATS and spec.dtype != "bool" and len(spec.shape) == 1 and not _is_mask(spec)


def _scaled(spec: InputSpec, old: np.ndarray, factor: float) -> np.ndarray | None:
    """Floats scaled; a float with a declared range goes to the end of its range instead; others stay."""
    values = spec.values or Values()
    if spec.dtype not in FLOATS or values.bernoulli is not None or values.constant is not None:
        return None
    if values.uniform is not None:
        low, high = values.uniform
        end = np.nextafter(np.float32(high), np.float32(low)) if factor > 1 else min(max(0.0, low), high)
        return rounded(np.full(old.shape, float(end)), spec.dtype)
    return rounded(old.astype(np.float64) * factor, spec.dtype)


def _nearly_equal(spec: InputSpec, old: np.ndarray) -> np.ndarray | None:
    """Each row lies close around its first value: its variance is small, and its mean is not."""
    values = spec.values or Values()
    fixed = values.bernoulli is not None or values.constant is not None
    if spec.dtype not in FLOATS or fixed or old.ndim < 2 or old.shape[-1] < 2:
        return None
    first = old[..., :1].astype(np.float64)
    return rounded(first + NEAR_FACTOR * (old - first), spec.dtype)


def _one_a_row(workload: Workload) -> list[str]:
    """Integer inputs with one value a row, as segments have, beside other inputs of integers: each by itself."""
    integers = [i for i in workload.inputs if i.dtype not in FLOATS and i.dtype != "bool" and not _is_mask(i)]
    return [i.name for i in integers if _is_length(i)][:MOST_ALONE] if len(integers) > 1 else []


def _ids(
    spec: InputSpec, old: np.ndarray, change: Callable[[np.ndarray, int, np.ndarray], np.ndarray]
) -> np.ndarray | None:
    """`change(old, smallest, largest)` for an input of integers; None for any other, which stays as it is."""
    values = spec.values or Values()
    if spec.dtype in FLOATS or spec.dtype == "bool" or _is_mask(spec) or values.constant is not None or not old.size:
        return None
    if values.uniform is not None and values.below is None:
        low, top = math.floor(values.uniform[0]), np.asarray(math.ceil(values.uniform[1]) - 1)
    else:
        low, below = bounds(spec, old.shape)
        top = below - 1
    return np.ascontiguousarray(change(old, low, top)).astype(spec.dtype).reshape(old.shape)


def _smallest(old: np.ndarray, low: int, top: np.ndarray) -> np.ndarray:
    return np.full_like(old, low)


def _largest(old: np.ndarray, low: int, top: np.ndarray) -> np.ndarray:
    return np.broadcast_to(top, old.shape)


def _one_id(old: np.ndarray, low: int, top: np.ndarray) -> np.ndarray:
    """One id everywhere; where each column has a bound of its own, one row everywhere."""
    return np.broadcast_to(old[:1], old.shape) if top.ndim else np.full_like(old, old.flat[-1])


def _two_kinds(old: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Only the first two rows, many times over."""
    return old[rng.integers(0, min(2, old.shape[0]), size=old.shape[0])] if old.ndim else old


def _masked(spec: InputSpec, old: np.ndarray, value: int, *, every: int) -> np.ndarray | None:
    if not old.ndim:
        return None
    new = old.copy()
    if _is_mask(spec):
        new[::every] = value
    elif _is_length(spec):
        end = _ids(spec, old, _largest if value else _smallest)
        if end is None:
            return None
        new[::every] = end[::every]
    else:
        return None
    return new


def _one_place(spec: InputSpec, old: np.ndarray, value: int) -> np.ndarray | None:
    """In each row one place is `value` and the others are not: the first, the last, the second, ... A length is one, or
    one less than the longest."""
    if not old.ndim or not old.size:
        return None
    if _is_mask(spec):
        new = np.full(old.shape, 1 - value, dtype=old.dtype)
        rows = new.reshape(-1, old.shape[-1])
        turn = np.arange(len(rows)) % old.shape[-1]
        rows[np.arange(len(rows)), np.where(turn % 2, old.shape[-1] - 1 - turn // 2, turn // 2)] = value
        return new
    if _is_length(spec):
        return _ids(
            spec, old, lambda _, low, top: np.broadcast_to(np.clip(1 if value else top - 1, low, top), old.shape)
        )
    return None
