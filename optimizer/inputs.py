"""Draws a workload's inputs as serving sees them; the sets at the edges are `verifying/edges.py`.

numpy only. float16 and bfloat16 inputs are drawn as float32 rounded to what their dtype can hold, because that is how
they travel to a child. Captured samples are read and drawn by `capturing/samples.py`.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from optimizer.errors import FuseworksError
from optimizer.spec import InputSpec, Values, Workload

FLOATS = frozenset({"float32", "float64", "float16", "bfloat16"})
ZIPF_HEAD = 1 << 20


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
