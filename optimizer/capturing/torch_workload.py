"""Fills the workload in: what the user gave is kept, the rest is read off the samples and the graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from optimizer.capturing.torch_ids import Bounds
from optimizer.capturing.torch_inputs import dtype_name
from optimizer.errors import FuseworksError
from optimizer.spec import Dim, InputSpec, Values, Workload

SMALLEST_MAX = 2048  # an inferred dimension may grow to this, or to four times the sample
GROWTH = 4
UNIFORM_MEAN, UNIFORM_DEVIATION = 0.5, 12**-0.5
LOOKS_UNIFORM = 0.05
LOOKS_UNIFORM_VALUES = 32


@dataclass(frozen=True)
class Shapes:
    """The inputs with symbolic shapes, before their values are known."""

    specs: list[InputSpec]
    dims: dict[str, Dim]


def given_shapes(workload: Workload, names: list[str], inputs: list[torch.Tensor], at: str) -> Shapes:
    """The user's shapes, checked against the samples. Raises FuseworksError."""
    given = [spec.name for spec in workload.inputs]
    if len(given) != len(inputs):
        text = f"it has {len(given)} inputs ({', '.join(given)}), get_inputs() gives {len(inputs)} ({', '.join(names)})"
        raise FuseworksError("capturing:user:workload-mismatch", place=at, text=text)
    if given != names and sorted(given) == sorted(names):
        text = f"its order is {', '.join(given)}, that of `forward` is {', '.join(names)}"
        raise FuseworksError("capturing:user:workload-mismatch", place=at, text=text)
    sizes: dict[str, tuple[int, str]] = {}
    for spec, tensor in zip(workload.inputs, inputs, strict=True):
        misfit = _misfit(spec, tensor, sizes)
        if misfit:
            text = f"input {spec.name!r} {misfit}"
            raise FuseworksError("capturing:user:workload-mismatch", place=at, text=text)
    used = {d for spec in workload.inputs for d in spec.shape if isinstance(d, str)}
    return Shapes(list(workload.inputs), {name: dim for name, dim in workload.dims.items() if name in used})


def _misfit(spec: InputSpec, tensor: torch.Tensor, sizes: dict[str, tuple[int, str]]) -> str | None:
    if spec.dtype != dtype_name(tensor.dtype):
        return f"is {spec.dtype} there and {dtype_name(tensor.dtype)} in get_inputs()"
    if len(spec.shape) != tensor.dim():
        return f"has {len(spec.shape)} dimensions there and {tensor.dim()} in get_inputs()"
    for axis, (dim, size) in enumerate(zip(spec.shape, tensor.shape, strict=True)):
        if isinstance(dim, int) and dim != size:
            return f"has size {dim} in dimension {axis} there and {size} in get_inputs()"
        if isinstance(dim, str):
            first, where = sizes.setdefault(dim, (size, spec.name))
            if first != size:
                return f"has size {size} for {dim!r}, but input {where!r} has {first}"
    return None


def inferred_shapes(names: list[str], inputs: list[torch.Tensor]) -> Shapes:
    """Batch is dim 0 of every input whose dim 0 equals the first input's."""
    batch = next((t.shape[0] for t in inputs if t.dim()), None)
    if batch is None or batch == 0:
        return static_shapes(names, inputs)
    specs = []
    for name, tensor in zip(names, inputs, strict=True):
        shape: list[int | str] = list(tensor.shape)
        if shape and shape[0] == batch:
            shape[0] = "batch"
        specs.append(InputSpec(name=name, dtype=dtype_name(tensor.dtype), shape=shape))
    return Shapes(specs, {"batch": Dim(serve=[batch], min=1, max=max(SMALLEST_MAX, GROWTH * batch))})


def static_shapes(names: list[str], inputs: list[torch.Tensor]) -> Shapes:
    specs = [
        InputSpec(name=name, dtype=dtype_name(tensor.dtype), shape=list(tensor.shape))
        for name, tensor in zip(names, inputs, strict=True)
    ]
    return Shapes(specs, {})


def filled(
    base: Workload | None, shapes: Shapes, samples: Sequence[torch.Tensor | None], bounds: dict[int, Bounds], at: str
) -> Workload:
    """The complete workload. Raises FuseworksError when the user's ids go beyond the table that they index."""
    inputs = []
    for index, (spec, sample) in enumerate(zip(shapes.specs, samples, strict=True)):
        values = spec.values
        if spec.dtype == "bool" or spec.dtype.startswith(("float", "bfloat")):
            values = values or (_real_values(sample) if sample is not None else None)
        else:
            values = _integer_values(spec, sample, bounds.get(index), at)
        inputs.append(spec.model_copy(update={"values": values}))
    if base is None:
        return Workload(inputs=inputs, dims=shapes.dims)
    return base.model_copy(update={"inputs": inputs})


def _real_values(sample: torch.Tensor) -> Values | None:
    real = sample.double()
    real = real[real.isfinite()]
    if not real.numel():
        return None
    if bool(((real == 0) | (real == 1)).all()) and (sample.dtype == torch.bool or real.unique().numel() == 2):
        return Values(bernoulli=_rounded(real.mean().item()))
    mean, deviation = real.mean().item(), real.std(correction=0).item()
    if deviation == 0:
        return Values(constant=_rounded(mean))
    inside = real.min().item() >= 0 and real.max().item() <= 1 and real.numel() >= LOOKS_UNIFORM_VALUES
    flat = abs(mean - UNIFORM_MEAN) < LOOKS_UNIFORM and abs(deviation - UNIFORM_DEVIATION) < LOOKS_UNIFORM
    if inside and flat:
        return Values(uniform=(0.0, 1.0))
    return Values(normal=(_rounded(mean), _rounded(deviation)))


def _integer_values(spec: InputSpec, sample: torch.Tensor | None, bounds: Bounds | None, at: str) -> Values:
    given = spec.values
    if given is not None and given.below is not None:
        beyond = spec.beyond(bounds.below) if bounds is not None else None
        if beyond is not None:
            raise FuseworksError("capturing:user:workload-mismatch", place=at, text=beyond)
        return given
    if given is not None and (given.bernoulli is not None or given.constant is not None):
        return given
    low, below = _sample_range(sample, bounds)
    if given is None:
        return Values(from_=low, below=below)
    return given.model_copy(update={"below": below} | ({} if given.from_ else {"from_": low}))


def _sample_range(sample: torch.Tensor | None, bounds: Bounds | None) -> tuple[int, int | list[int]]:
    """A column that indexes a table stays below its rows; any other within what the samples show."""
    columns = len(bounds.below) if bounds else 1
    if sample is None or not sample.numel():
        seen = [(0, 2)] * columns
    elif columns > 1:
        flat = sample.reshape(-1, columns).long()
        seen = [(int(a), int(b) + 1) for a, b in zip(flat.amin(0), flat.amax(0), strict=True)]
    else:
        seen = [(int(sample.min()), int(sample.max()) + 1)]
    if bounds is None:
        return seen[0]
    free = [low for (low, _), rows in zip(seen, bounds.below, strict=True) if rows is None]
    # a negative id in the samples (padding, or counting from the end) is part of how the model is called
    low = min([*free, *(low for low, _ in seen if low < 0)], default=0)
    low = max(low, *(value for value in bounds.low if value is not None)) if not (low < 0) else low
    below = [rows if rows is not None else high for rows, (_, high) in zip(bounds.below, seen, strict=True)]
    return low, below[0] if len(set(below)) == 1 else below


def _rounded(value: float) -> float:
    return float(f"{value:.6g}") if math.isfinite(value) else value
