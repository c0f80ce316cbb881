"""Draws a workload's inputs: what serving sees, and the sets at the edges of what the workload declares.

numpy only. float16 and bfloat16 inputs are drawn as float32 rounded to what their dtype can hold, because that is how
they travel to a child. Captured samples are read and drawn by `capturing/samples.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from optimizer.errors import FuseworksError
from optimizer.spec import InputSpec, Values, Workload

FLOATS = frozenset({"float32", "float64", "float16", "bfloat16"})
ZIPF_HEAD = 1 << 20
LARGE_FACTOR, SMALL_FACTOR = 16.0, 2.0**-10
EDGE_BYTES = 256 << 20
EDGE_GROWTH, SURE_GROWTH = 64.0, 8.0


class EdgeSet(NamedTuple):
    """`amplifies`: magnitudes are far from the workload's own, where rounding alone may grow.

    `growth`: how many times the work of the measured size it may take; `sure`: it is worth that, however long it takes.
    """

    name: str
    kind: Literal["sizes", "edge"]
    sizes: dict[str, int]
    arrays: list[np.ndarray]
    amplifies: bool = False
    growth: float = 1.0
    sure: bool = True


def draw(workload: Workload, sizes: dict[str, int], rng: np.random.Generator) -> list[np.ndarray]:
    """One input set, in the order of `workload.inputs`. Raises FuseworksError (`run:usage:spec`)."""
    arrays = [_draw(spec, workload.shape_of(spec, sizes), rng) for spec in workload.inputs]
    return promised(workload, arrays)


def items(workload: Workload, sizes: dict[str, int]) -> int:
    """Samples in one input set: the first input's first dimension."""
    shape = workload.shape_of(workload.inputs[0], sizes)
    return shape[0] if shape else 1


def travel_dtype(dtype: str) -> np.dtype:
    return np.dtype("float32" if dtype in {"float16", "bfloat16"} else dtype)


def promised(workload: Workload, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Keeps the workload's contracts: every row of a `same_over_batch` input is its first."""
    same = {name for contract in workload.contracts for name in contract.same_over_batch}
    return [
        np.ascontiguousarray(np.broadcast_to(array[:1], array.shape)) if spec.name in same and array.ndim else array
        for spec, array in zip(workload.inputs, arrays, strict=True)
    ]


def _draw(spec: InputSpec, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    values = spec.values or Values()
    if spec.dtype == "bool":
        return np.asarray(_draw_bools(values, shape, rng))
    if spec.dtype in FLOATS:
        return rounded(np.asarray(_draw_floats(spec, values, shape, rng)), spec.dtype)
    return np.asarray(_draw_integers(spec, values, shape, rng)).astype(spec.dtype)


def _draw_bools(values: Values, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if values.constant is not None:
        return np.full(shape, bool(values.constant))
    return rng.random(shape) < (0.5 if values.bernoulli is None else values.bernoulli)


def _draw_floats(spec: InputSpec, values: Values, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if values.zipf is not None or values.below is not None:
        raise FuseworksError("run:usage:spec", place=spec.name, text="zipf and below are for integer inputs")
    if values.constant is not None:
        return np.full(shape, values.constant)
    if values.bernoulli is not None:
        return (rng.random(shape) < values.bernoulli).astype(np.float64)
    if values.uniform is not None:
        low, high = values.uniform
        return low + (high - low) * rng.random(shape)
    mean, deviation = values.normal or (0.0, 1.0)
    return mean + deviation * rng.standard_normal(shape)


def _draw_integers(spec: InputSpec, values: Values, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if values.constant is not None:
        return np.full(shape, int(values.constant))
    if values.bernoulli is not None:
        return (rng.random(shape) < values.bernoulli).astype(np.int64)
    low, below = bounds(spec, shape)
    if values.zipf is not None:
        return low + _zipf(values.zipf, below - low, shape, rng)
    if values.uniform is not None:
        drawn = np.floor(values.uniform[0] + (values.uniform[1] - values.uniform[0]) * rng.random(shape))
        return np.clip(drawn, *((low, below - 1) if values.below is not None else values.uniform)).astype(np.int64)
    if values.normal is not None:
        drawn = np.rint(values.normal[0] + values.normal[1] * rng.standard_normal(shape))
        return np.clip(drawn, low, below - 1).astype(np.int64)
    return rng.integers(low, np.broadcast_to(below, shape), dtype=np.int64)


def bounds(spec: InputSpec, shape: tuple[int, ...]) -> tuple[int, np.ndarray]:
    """Smallest integer, and the bound that integers stay below: one number, or one per column of the last dimension.

    Without a declared bound only 0 and 1 are safe for whatever the integers index.
    """
    values = spec.values or Values()
    below = np.asarray(values.from_ + 2 if values.below is None else values.below, dtype=np.int64)
    if below.ndim and (not shape or below.size != shape[-1]):
        text = f"below lists {below.size} bounds for {shape[-1] if shape else 0} columns"
        raise FuseworksError("run:usage:spec", place=spec.name, text=text)
    limits = np.iinfo(spec.dtype)
    if below.min() <= values.from_ or values.from_ < limits.min or below.max() - 1 > limits.max:
        text = f"no {spec.dtype} lies in [{values.from_}, {below.min()})"
        raise FuseworksError("run:usage:spec", place=spec.name, text=text)
    return values.from_, below


def rounded(array: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "float16":
        return array.astype(np.float16).astype(np.float32)
    if dtype == "bfloat16":
        bits = array.astype(np.float32).view(np.uint32)
        nearest_even = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
        return np.asarray(nearest_even & np.uint32(0xFFFF0000)).view(np.float32)
    return np.asarray(array, dtype=dtype)


@lru_cache(maxsize=16)
def _zipf_head(exponent: float) -> np.ndarray:
    """Running sums of k**-exponent. One array serves every bound, since a bounded law is its prefix."""
    sums: np.ndarray = np.cumsum(np.arange(1, ZIPF_HEAD + 1, dtype=np.float64) ** -exponent)
    sums.flags.writeable = False
    return sums


def _zipf(exponent: float, counts: np.ndarray, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Ranks from 0, rank k with probability proportional to (k + 1)**-exponent, per column where `counts` is a list."""
    if counts.ndim == 0:
        return _zipf_ranks(exponent, int(counts), rng.random(shape))
    drawn = np.empty(shape, dtype=np.int64)
    for column, count in enumerate(counts):
        drawn[..., column] = _zipf_ranks(exponent, int(count), rng.random(shape[:-1]))
    return drawn


def _zipf_ranks(exponent: float, count: int, uniform: np.ndarray) -> np.ndarray:
    """Inverse CDF: exact up to ZIPF_HEAD ranks, the midpoint integral beyond (its error there is below 1e-12)."""
    head = _zipf_head(exponent)[: min(count, ZIPF_HEAD)]
    start = ZIPF_HEAD + 0.5
    tail = 0.0
    if count > ZIPF_HEAD:
        if exponent == 1.0:
            tail = math.log((count + 0.5) / start)
        else:
            tail = ((count + 0.5) ** (1 - exponent) - start ** (1 - exponent)) / (1 - exponent)
    mass = np.atleast_1d(uniform) * (head[-1] + tail)
    ranks: np.ndarray = np.minimum(np.searchsorted(head, mass, side="right"), len(head) - 1)
    if tail:
        rest = mass - head[-1]
        far = rest > 0
        if exponent == 1.0:
            reached = start * np.exp(rest[far])
        else:
            reached = (start ** (1 - exponent) + (1 - exponent) * rest[far]) ** (1 / (1 - exponent))
        ranks[far] = np.clip(np.floor(reached + 0.5).astype(np.int64), ZIPF_HEAD + 1, count) - 1
    return np.asarray(ranks.astype(np.int64)).reshape(np.shape(uniform))


# ---- the edges -----------------------------------------------------------------------------------------------------


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
        for name, sizes in _other_sizes(workload, rng, max_bytes, max_growth, sure)
    ]
    plain = draw(workload, base, rng)

    def add(name: str, changed: Iterable[np.ndarray | None], amplifies: bool = False) -> None:
        arrays = [new if new is not None else old.copy() for old, new in zip(plain, changed, strict=True)]
        same = all(np.array_equal(new, old) for new, old in zip(arrays, plain, strict=True))
        if not same:
            sets.append(EdgeSet(name, "edge", base, promised(workload, arrays), amplifies))

    pairs = list(zip(workload.inputs, plain, strict=True))
    add("zeros", (_scaled(spec, old, 0.0) for spec, old in pairs))
    add("small values", (_scaled(spec, old, SMALL_FACTOR) for spec, old in pairs))
    add("large values", (_scaled(spec, old, LARGE_FACTOR) for spec, old in pairs), amplifies=True)
    add("all-equal ids", (_ids(spec, old, _one_id) for spec, old in pairs))
    add("duplicate ids", (_ids(spec, old, lambda old, low, top: _two_kinds(old, rng)) for spec, old in pairs))
    add("smallest ids", (_ids(spec, old, _smallest) for spec, old in pairs))
    add("largest ids", (_ids(spec, old, _largest) for spec, old in pairs))
    if any(_is_mask(spec) or _is_length(spec) for spec in workload.inputs):
        add("fully masked rows", (_masked(spec, old, 0, every=2) for spec, old in pairs))
        add("masks all zero", (_masked(spec, old, 0, every=1) for spec, old in pairs))
        add("masks all one", (_masked(spec, old, 1, every=1) for spec, old in pairs))
    return sets


def _other_sizes(
    workload: Workload, rng: np.random.Generator, max_bytes: int, max_growth: float, sure: dict[str, int]
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
    return list(found.items())


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
