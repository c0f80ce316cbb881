"""Saves a module's weights once and loads them strictly. Tied tensors are stored under their first name.

Non-persistent buffers are saved too: a child must hold exactly what was captured, whatever its own random numbers say.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

import optimizer.capturing.errors  # noqa: F401
from optimizer.capturing.fixed_arguments import Fixed, from_metadata, to_metadata
from optimizer.errors import FuseworksError

NAMES_SHOWN = 8


def save_weights(module: torch.nn.Module, path: Path, fixed: dict[int, Fixed] | None = None) -> None:
    first: dict[object, torch.Tensor] = {}
    stored: dict[str, torch.Tensor] = {}
    for name, tensor in _tensors(module).items():
        if _identity(tensor) not in first:
            first[_identity(tensor)] = tensor
            stored[name] = tensor.detach().contiguous().clone()  # a view into a shared storage cannot be saved as it is
    save_file(stored, str(path), metadata=to_metadata(fixed or {}))


def fixed_arguments_of(path: Path) -> dict[int, Fixed]:
    """Those that the capture left with the weights."""
    with safe_open(str(path), framework="pt") as file:
        return from_metadata(file.metadata())


def load_weights(module: torch.nn.Module, path: Path) -> None:
    """Copies every tensor of the file into the module. Raises FuseworksError naming what is missing or left over."""
    tensors = _tensors(module)
    optional = set(tensors) - set(module.state_dict(keep_vars=True))
    try:
        with safe_open(str(path), framework="pt") as file, torch.no_grad():
            names = set(file.keys())
            _check(tensors, optional, {name: list(file.get_slice(name).get_shape()) for name in names})
            for name in names:
                _assign(tensors[name], file.get_tensor(name))
    except (SafetensorError, OSError, ValueError) as error:
        raise FuseworksError("capturing:user:weights-unreadable", place=path.name, text=str(error)) from error


def _assign(target: torch.Tensor, value: torch.Tensor) -> None:
    if any(stride == 0 and size > 1 for stride, size in zip(target.stride(), target.shape, strict=True)):
        # an expanded buffer: its elements share memory, so copy_ refuses it
        target.set_(value.to(target.dtype).untyped_storage(), 0, value.shape, value.stride())
    else:
        target.copy_(value)


def _check(tensors: dict[str, torch.Tensor], optional: set[str], given: dict[str, list[int]]) -> None:
    covered = {_identity(tensors[name]) for name in given if name in tensors}
    missing = [n for n, t in tensors.items() if n not in given and n not in optional and _identity(t) not in covered]
    unexpected = sorted(set(given) - set(tensors))
    shapes = [
        f"{name} is {list(tensors[name].shape)} in the module and {shape} in the file"
        for name, shape in sorted(given.items())
        if name in tensors and list(tensors[name].shape) != shape
    ]
    if missing or unexpected or shapes:
        raise FuseworksError(
            "capturing:user:weights-mismatch",
            place="weights.safetensors",
            missing=_listed(missing),
            unexpected=_listed(unexpected),
            shapes=_listed(shapes),
        )


def _tensors(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers, persistent or not, under every name that they have."""
    return {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }


def _identity(tensor: torch.Tensor) -> object:
    return (tensor.data_ptr(), tuple(tensor.shape), tensor.stride()) if tensor.numel() else id(tensor)


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:NAMES_SHOWN])
    return (shown + (f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else "")) or "none"
