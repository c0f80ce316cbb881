"""Captured inputs of an upload (a workload's `samples`): read under limits, checked against the workload, drawn from.

One tensor per input under its name, all of one kind: rows (`[samples, ...]`, dimension 0 of every input is the batch)
or whole calls (`[samples, *shape]`). numpy only: the file is a stranger's, and data. The label of a task metric may lie
beside the inputs: one tensor of numbers, with as many samples.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import optimizer.capturing.errors  # noqa: F401  its ids must be in the catalogue
from optimizer.capturing.inspector_safetensors import inspect_safetensors
from optimizer.errors import FuseworksError
from optimizer.inputs import FLOATS, bounds, promised, rounded, travel_dtype
from optimizer.spec import InputSpec, Workload

FILE = "samples.safetensors"  # as the capture hands it over, whatever the upload calls it
LIMIT_BYTES = 1 << 30
MIN_ROWS = 2
# Floats are moved by up to this share of themselves where they are timed: small beside what any two samples differ by,
# and enough that no two calls are equal to the bit.
JITTER = 1e-3
STORED = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip


@dataclass(frozen=True)
class Samples:
    """`arrays` in the order of the workload's inputs, in the dtypes in which they travel. `rows`: else whole calls.
    `varied`: those whose values are moved where they are timed."""

    workload: Workload
    arrays: list[np.ndarray]
    rows: bool
    varied: list[bool]
    labels: np.ndarray | None = None

    @property
    def count(self) -> int:
        return len(self.arrays[0])

    @property
    def per_set(self) -> int:
        """Samples that one set of the measured size takes."""
        return self._shape(self.workload.inputs[0])[0] if self.rows else 1

    @property
    def sets(self) -> int:
        """How many sets of the measured size hold every sample at least once."""
        return -(-self.count // self.per_set)

    def draw(self, rng: np.random.Generator) -> list[np.ndarray]:
        """A set for timing: samples with replacement, and floats moved a little. The upload knows its samples, and a
        pool known beforehand can be memoised; so no set comes twice, nor does a sample that has a float in it."""
        chosen = rng.integers(self.count, size=self.per_set)
        arrays = [self._set(array, chosen) for array in self.arrays]
        moved = [
            _moved(spec, array, rng) if varied else array
            for spec, array, varied in zip(self.workload.inputs, arrays, self.varied, strict=True)
        ]
        return promised(self.workload, moved)

    def captured(self, number: int) -> list[np.ndarray]:
        """Set `number` for verification: the samples in turn, exactly as they were captured."""
        chosen = (number * self.per_set + np.arange(self.per_set)) % self.count
        return promised(self.workload, [self._set(array, chosen) for array in self.arrays])

    def labelled(self, number: int) -> np.ndarray:
        """The labels of `captured(number)`, one for each row or, of a whole call, all of its own behind one leading
        dimension; without the rows that begin the samples anew."""
        assert self.labels is not None
        first = number * self.per_set
        return self.labels[first : first + self.per_set]

    def note(self) -> str:
        """What a reader must know of inputs that the upload knows too."""
        kind = "rows" if self.rows else "whole calls"
        text = f"Timed inputs are drawn from the {self.count} captured {kind}, with replacement; "
        if any(self.varied):
            return text + f"floats are moved by up to {JITTER:.1%}, so that no answer can be looked up."
        known = "a model that remembers single rows" if self.rows else "a model that remembers whole calls"
        return text + f"they hold no float that could be varied, so {known} would look faster than it is."

    def _set(self, array: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(array[chosen] if self.rows else array[chosen[0]])

    def _shape(self, spec: InputSpec) -> tuple[int, ...]:
        return self.workload.shape_of(spec, self.workload.sizes())


def read_samples(path: Path, workload: Workload) -> Samples:
    """Raises FuseworksError (`capturing:user:bad-samples`, `inspecting:user:bad-safetensors`) with file and tensor."""
    name = workload.samples or FILE
    size_bytes = path.stat().st_size
    if size_bytes > LIMIT_BYTES:
        raise _bad(name, f"the file has {size_bytes >> 20} MiB, and {LIMIT_BYTES >> 20} MiB are taken")
    with path.open("rb") as file:
        inspect_safetensors(name, size_bytes, lambda size: _start(file, size))
        header = _header(file)
    names = [spec.name for spec in workload.inputs]
    missing = [one for one in names if one not in header]
    label = {workload.labels.label} if workload.labels is not None else set()
    unknown = sorted(set(header) - set(names) - label)
    if missing or unknown:
        text = f"no tensor for input {missing[0]!r}" if missing else f"{unknown[0][:80]!r} is no input of the workload"
        raise _bad(name, text)
    rows = len(header[names[0]]["shape"]) == len(workload.inputs[0].shape)
    data = np.memmap(path, dtype=np.uint8, mode="r")[size_bytes - max(header[n]["data_offsets"][1] for n in header) :]
    arrays = []
    for spec in workload.inputs:
        place = f"{name}: {spec.name}"
        described = header[spec.name]
        _check_form(place, spec, described, workload, rows)
        array = _array(data, described)
        _check_values(place, spec, array, workload)
        arrays.append(array)
    counts = {len(array) for array in arrays}
    if len(counts) > 1:
        raise _bad(name, f"its tensors hold {' and '.join(map(str, sorted(counts)))} samples")
    count, needed = counts.pop(), MIN_ROWS if rows else 1
    if count < needed:
        raise _bad(name, f"it holds {count} samples, and {needed} are needed")
    varied = [_may_vary(spec, array) for spec, array in zip(workload.inputs, arrays, strict=True)]
    labels = _labels(name, workload, header, data, count)
    return Samples(workload, arrays, rows, varied, labels)


def _labels(
    name: str, workload: Workload, header: Mapping[str, Any], data: np.ndarray, count: int
) -> np.ndarray | None:
    """None where the workload asks for no metric, or the file has no such tensor."""
    label = workload.labels.label if workload.labels is not None else ""
    if label not in header:
        return None
    place = f"{name}: {label}"
    if header[label]["dtype"] not in STORED:
        raise _bad(place, f"labels of {header[label]['dtype']} are not read")
    found = _array(data, header[label]).astype(np.float64)
    if not found.ndim or len(found) != count:
        raise _bad(place, f"its shape is {list(found.shape)}, and the inputs hold {count} samples")
    if not np.isfinite(found).all():
        raise _bad(place, "it holds labels that are no numbers")
    return found.reshape(count, *found.shape[1:-1]) if found.ndim > 1 and found.shape[-1] == 1 else found


def _bad(place: str, text: str) -> FuseworksError:
    return FuseworksError("capturing:user:bad-samples", place=place, text=text)


def _start(file: Any, size: int) -> bytes:
    file.seek(0)
    found: bytes = file.read(size)
    return found


def _header(file: Any) -> dict[str, Any]:
    """Checked by the inspector just before."""
    (length,) = struct.unpack("<Q", _start(file, 8))
    header: dict[str, Any] = json.loads(_start(file, 8 + length)[8:])
    header.pop("__metadata__", None)
    return header


def _check_form(place: str, spec: InputSpec, described: Mapping[str, Any], workload: Workload, rows: bool) -> None:
    stored = STORED.get(described["dtype"], described["dtype"])
    if stored != spec.dtype:
        raise _bad(place, f"it is {stored} where the workload's input is {spec.dtype}")
    shape, wanted = list(described["shape"]), list(workload.shape_of(spec, workload.sizes()))
    if rows and (not spec.shape or spec.shape[0] != workload.inputs[0].shape[0]):
        text = "its dimension 0 is not the batch, so that no rows can be drawn: give whole calls, [samples, *shape]"
        raise _bad(place, text)
    inner = wanted[1:] if rows else wanted
    if not shape or shape[1:] != inner:
        text = f"its shape is {shape}, and [samples{''.join(f', {size}' for size in inner)}] is needed"
        raise _bad(place, text)


def _array(data: np.ndarray, described: Mapping[str, Any]) -> np.ndarray:
    begins, ends = described["data_offsets"]
    stored, shape = STORED[described["dtype"]], described["shape"]
    raw = data[begins:ends]
    if stored == "bool":
        return np.asarray(raw.reshape(shape) != 0)
    if stored == "bfloat16":
        return np.asarray(raw.view("<u2").astype(np.uint32) << np.uint32(16)).view(np.float32).reshape(shape)
    return np.asarray(raw.view(stored).reshape(shape).astype(travel_dtype(stored), copy=False))


def _check_values(place: str, spec: InputSpec, array: np.ndarray, workload: Workload) -> None:
    """Ids stay within what the workload declares: beyond a table they would end the original, too."""
    if spec.dtype in FLOATS or spec.dtype == "bool" or spec.values is None or spec.values.below is None:
        return
    low, below = bounds(spec, workload.shape_of(spec, workload.sizes()))
    beyond = np.argwhere((array < low) | (array >= below))
    if len(beyond):
        at = tuple(int(i) for i in beyond[0])
        most = int(np.broadcast_to(below, array.shape)[at]) - 1
        raise _bad(place, f"sample {at[0]} holds {array[at]}, and the workload declares {low} to {most}")


def _may_vary(spec: InputSpec, array: np.ndarray) -> bool:
    """A float that holds whole numbers only is a flag, a count or an id: it stays."""
    if spec.dtype not in FLOATS or (spec.values is not None and spec.values.bernoulli is not None):
        return False
    return bool((array[np.isfinite(array)] % 1 != 0).any())


def _moved(spec: InputSpec, array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    moved = array * (1.0 + JITTER * (2.0 * rng.random(array.shape) - 1.0))
    if spec.values is not None and spec.values.uniform is not None:
        moved = np.clip(moved, *spec.values.uniform)
    return rounded(moved, spec.dtype)
