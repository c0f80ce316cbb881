"""The model's sample inputs and outputs: checked to be plain tensors, named, and resized along dynamic dimensions."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable
from typing import Any, get_args

import numpy as np
import torch
from torch.utils import _pytree as pytree

from optimizer.capturing.fixed_arguments import FIXED, fixed_among
from optimizer.capturing.torch_module import UserModel
from optimizer.capturing.torch_places import Sources
from optimizer.errors import FuseworksError
from optimizer.inputs import draw
from optimizer.spec import Dtype, InputSpec, Workload

DTYPES = frozenset(get_args(Dtype))
# Below this, values computed from a size (half of it, one less) run into torch.export's special cases 0 and 1.
SMALLEST_TRACED_SIZE = 4


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def sample_inputs(user: UserModel, function: str = "get_inputs", names: list[str] | None = None) -> list[torch.Tensor]:
    """The tensors that get_inputs() gives, contiguous and on the CPU. Plain values among them become the model's fixed
    arguments at the first call. Or those of another `function`, which must give one for each of `names`. Raises
    FuseworksError when it gives anything else."""
    given = user.call(function)
    code = getattr(getattr(user.namespace, function), "__code__", None)
    at = user.sources.place(code.co_filename, code.co_firstlineno) if code else user.sources.shown
    if not isinstance(given, (list, tuple)) or not given:
        what = "an empty list" if isinstance(given, (list, tuple)) else f"a {type(given).__name__} instead of a list"
        raise FuseworksError("capturing:user:bad-inputs", place=at, function=function, what=what)
    if names is None:
        if not user.fixed and len(fixed := fixed_among(given)) < len(given):
            user.fix(fixed)
        given = [value for place, value in enumerate(given) if place not in user.fixed or type(value) not in FIXED]
        names = argument_names(user.module, len(given))
    elif len(names) != len(given):
        what = f"{len(given)} tensors where {len(names)} are needed ({', '.join(names)})"
        raise FuseworksError("capturing:user:bad-inputs", place=at, function=function, what=what)
    return [_checked(value, name, at, function) for value, name in zip(given, names, strict=True)]


def _checked(value: Any, name: str, at: str | None, function: str) -> torch.Tensor:
    if type(value) in FIXED or isinstance(value, complex):
        raise FuseworksError("capturing:user:scalar-input", place=at, name=name, type=type(value).__name__)
    if isinstance(value, (list, tuple, dict)):
        raise FuseworksError("capturing:user:nested-input", place=at, name=name, type=type(value).__name__)
    what = None
    if not isinstance(value, torch.Tensor):
        what = f"a {type(value).__name__} for input {name!r}"
    elif value.is_nested or value.layout != torch.strided:
        what = f"a sparse or nested tensor for input {name!r}"
    elif dtype_name(value.dtype) not in DTYPES:
        what = f"a tensor of {dtype_name(value.dtype)} for input {name!r}, which a workload cannot hold"
    if what is not None:
        raise FuseworksError("capturing:user:bad-inputs", place=at, function=function, what=what)
    return value.detach().cpu().contiguous()


def argument_names(module: torch.nn.Module, count: int) -> list[str]:
    """Names of the first `count` positional arguments of `forward`; those of `*xs` are `xs0`, `xs1`, ..."""
    names: list[str] = []
    for parameter in inspect.signature(module.forward).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}{i}" for i in range(count - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    # too few parameters: the call itself will say so, with Python's own words
    return (names + [f"input{i}" for i in range(len(names), count)])[:count]


def output_leaves(outputs: Any, at: str | None) -> tuple[list[str], list[torch.Tensor]]:
    """Outputs flattened by pytree, with names: a mapping's keys, else `out0`, `out1`, ..."""
    leaves, _ = pytree.tree_flatten_with_path(outputs)
    if not leaves:
        raise FuseworksError("capturing:user:no-output", place=at)
    names = [_output_name(path) for path, _ in leaves]
    for name, (_, leaf) in zip(names, leaves, strict=True):
        if not isinstance(leaf, torch.Tensor):
            what = "None" if leaf is None else f"a {type(leaf).__name__}"
            raise FuseworksError("capturing:user:non-tensor-output", place=at, name=name, what=what)
    return names, [leaf for _, leaf in leaves]


def _output_name(path: tuple[Any, ...]) -> str:
    if not path:
        return "out0"
    first, *rest = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path]
    return ".".join([f"out{first}" if first.isdigit() else first, *rest])


def resized(inputs: list[torch.Tensor], specs: list[InputSpec], sizes: dict[str, int]) -> list[torch.Tensor]:
    """The inputs with every named dimension at `sizes`: rows repeated in turn, or cut off."""
    result = []
    for tensor, spec in zip(inputs, specs, strict=True):
        for axis, dim in enumerate(spec.shape):
            if isinstance(dim, str) and tensor.shape[axis] != sizes[dim]:
                tensor = tensor.index_select(axis, torch.arange(sizes[dim]) % tensor.shape[axis])
        result.append(tensor.contiguous())
    return result


def check_drawn(workload: Workload, call: Callable[..., Any], sources: Sources | None, seed: int) -> None:
    """Whether the model takes what every later step will give it: random inputs of the workload's sizes."""
    arrays = draw(workload, workload.sizes(), np.random.default_rng(seed))
    drawn = [torch.from_numpy(a).to(getattr(torch, i.dtype)) for a, i in zip(arrays, workload.inputs, strict=True)]
    try:
        with torch.no_grad():
            call(*drawn)
    except Exception as error:
        raise FuseworksError(
            "capturing:user:drawn-inputs",
            place=sources.of_exception(error) if sources else None,
            detail="".join(traceback.format_exception(error))[-8000:],
            type=type(error).__name__,
            text=str(error)[:500],
        ) from error


def traced_size(wanted: int, low: int, high: int, avoid: Iterable[int]) -> int:
    """The size nearest to `wanted` that equals no other dimension: torch.export takes equal sizes for related ones."""
    low = max(low, min(SMALLEST_TRACED_SIZE, high))
    wanted, taken = min(max(wanted, low), high), set(avoid)
    for distance in range(high - low + 1):
        for size in (wanted + distance, wanted - distance):
            if low <= size <= high and size not in taken:
                return size
    return wanted
