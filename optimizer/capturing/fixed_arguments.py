"""Plain values among a model's sample inputs (`get_inputs()` gives `[x, 3.14]`): constants, for a graph takes tensors.

`forward` is bound to them, so that everybody else sees a model of tensors alone. The capture leaves them with the
weights that it saves, and every child that builds the module anew is bound to the same ones.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable
from typing import Any

import torch

Fixed = bool | int | float | str | None
FIXED = (bool, int, float, str, type(None))
KEY = "fixed_arguments"


def fixed_among(given: list[Any] | tuple[Any, ...]) -> dict[int, Fixed]:
    """By place; whoever derives a type of his own from these means something by it, and is refused elsewhere."""
    return {place: value for place, value in enumerate(given) if type(value) in FIXED}


def bind(module: torch.nn.Module, fixed: dict[int, Fixed]) -> None:
    forward: Callable[..., Any] = module.forward

    @functools.wraps(forward)
    def bound(*tensors: Any, **named: Any) -> Any:
        arguments = list(tensors)
        for place in sorted(fixed):
            arguments.insert(place, fixed[place])
        return forward(*arguments, **named)

    signature = inspect.signature(forward)
    kept = [
        parameter
        for place, parameter in enumerate(signature.parameters.values())
        if place not in fixed or parameter.kind is parameter.VAR_POSITIONAL
    ]
    bound.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    module.forward = bound


def notes(module: torch.nn.Module, fixed: dict[int, Fixed]) -> list[str]:
    names = list(inspect.signature(inspect.unwrap(module.forward)).parameters)
    return [
        f"Input {names[place] if place < len(names) else place!r} is {value!r}, no tensor: a constant of the graph"
        for place, value in fixed.items()
    ]


def to_metadata(fixed: dict[int, Fixed]) -> dict[str, str] | None:
    # None, not {}: safetensors writes a file without tensors and with empty metadata that it cannot read
    return {KEY: json.dumps(fixed)} if fixed else None


def from_metadata(metadata: dict[str, str] | None) -> dict[int, Fixed]:
    return {int(place): value for place, value in json.loads((metadata or {}).get(KEY, "{}")).items()}
