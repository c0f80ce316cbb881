"""Fusion problems in KernelBench's convention: small models as strangers write them, and what is in each, by hand.

A problem has `Model`, `get_init_inputs()` and `get_inputs()`, as an uploaded module has, and `expected`: how often each
operation of the library occurs in it, counted from its modules. What the library does not find is in `missed`, which a
test holds to be exactly so; `because` says why. A false friend looks like the operation `looks_like`, computes
something else, and must not become it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Problem:
    group: str
    name: str
    Model: type[nn.Module]
    get_inputs: Callable[[], list[Any]]
    get_init_inputs: Callable[[], list[Any]]
    expected: Mapping[str, int]
    missed: Mapping[str, int] = field(default_factory=dict)
    because: str = ""
    looks_like: str | None = None
    batch: tuple[int, ...] = ()
    """The inputs whose first dimension is a dynamic batch."""
    dtype: torch.dtype = torch.float32
    """The model and its float inputs are cast to it."""
    tolerance: float = 2e-5

    def __str__(self) -> str:
        return f"{self.group}-{self.name}"

    def build(self) -> nn.Module:
        """The model with weights that tell each other apart: a norm of ones hides a weight that went missing."""
        torch.manual_seed(0)
        model = self.Model(*self.get_init_inputs()).to(self.dtype).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.1)
        return model

    def inputs(self, seed: int) -> tuple[Any, ...]:
        torch.manual_seed(seed)
        return tuple(x.to(self.dtype) if _is_float(x) else x for x in self.get_inputs())


PROBLEMS: list[Problem] = []
FRIENDS: list[Problem] = []
Definition = Callable[[type[nn.Module]], type[nn.Module]]


def problem(
    inputs: Callable[[], list[Any]],
    init: Sequence[Any] = (),
    *,
    missed: Mapping[str, int] | None = None,
    because: str = "",
    batch: tuple[int, ...] = (),
    dtype: torch.dtype = torch.float32,
    tolerance: float = 2e-5,
    **expected: int,
) -> Definition:
    """Class decorator: files the model as a problem in which each operation occurs so often."""
    assert bool(missed) == bool(because)
    return _filed(PROBLEMS, inputs, init, expected, None, batch, dtype, tolerance, missed or {}, because)


def false_friend(
    looks_like: str,
    inputs: Callable[[], list[Any]],
    init: Sequence[Any] = (),
    *,
    batch: tuple[int, ...] = (),
    tolerance: float = 2e-5,
    **expected: int,
) -> Definition:
    """Class decorator: the model looks like the operation and is not; what else is in it is counted."""
    return _filed(FRIENDS, inputs, init, expected, looks_like, batch, torch.float32, tolerance, {}, "")


def _filed(
    where: list[Problem],
    inputs: Callable[[], list[Any]],
    init: Sequence[Any],
    expected: Mapping[str, int],
    looks_like: str | None,
    batch: tuple[int, ...],
    dtype: torch.dtype,
    tolerance: float,
    missed: Mapping[str, int],
    because: str,
) -> Definition:
    def file(model: type[nn.Module]) -> type[nn.Module]:
        group = model.__module__.rsplit(".", 1)[-1]
        told = (expected, missed, because, looks_like, batch, dtype, tolerance)
        where.append(Problem(group, model.__name__, model, inputs, lambda: list(init), *told))
        return model

    return file


def load() -> None:
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")


def _is_float(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()
