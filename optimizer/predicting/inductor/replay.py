"""Runs the wrapper that Inductor wrote on tensors without data: which kernels it starts, how often, with what.

Generated kernels are recorded, not run. Everything else that reaches a device is an operation of torch; a dispatch mode
sees each with its shapes, whatever way the wrapper calls it.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from optimizer.predicting.inductor.lowering import Lowered

aten = torch.ops.aten
# They give memory or another view of it, and start nothing on a device.
_NOTHING_RUNS = {
    aten.empty, aten.empty_strided, aten.empty_like, aten.new_empty, aten.new_empty_strided, aten.as_strided,
    aten.view, aten.reshape, aten._unsafe_view, aten._reshape_alias, aten.alias, aten.detach, aten.permute,
    aten.transpose, aten.t, aten.expand, aten.slice, aten.select, aten.squeeze, aten.unsqueeze, aten.split,
    aten.split_with_sizes, aten.unbind, aten.sym_size, aten.sym_stride, aten.lift_fresh, aten.set_,
}  # fmt: skip


@dataclass
class Launched:
    """One start of a generated kernel. `arguments` by parameter: numbers, and tensors without data."""

    name: str
    arguments: list[Any]


@dataclass
class Called:
    """One operation of torch that reaches the device."""

    operation: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    tensors: list[torch.Tensor]
    flops: int


@dataclass
class Replayed:
    """In the order of the wrapper. `sources`: the generated kernels' files, by name."""

    steps: list[Launched | Called] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)


def replay(lowered: Lowered) -> Replayed:
    """Within `absent_gpu`. Raises what torch raises where an operation cannot be followed without data."""
    done = Replayed()
    if not lowered.wrapper:
        return done
    from torch._inductor.async_compile import AsyncCompile

    def generated(_: Any, name: str, source: str, device_str: str) -> Any:
        done.sources[name] = source
        return SimpleNamespace(run=lambda *arguments, **__: done.steps.append(Launched(name, list(arguments))))

    guards = torch._C._dynamo.guards
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(AsyncCompile, "triton", generated))
        stack.enter_context(mock.patch.object(AsyncCompile, "wait", _nothing))
        stack.enter_context(mock.patch.object(guards, "_empty_strided_cuda", _without_data))
        stack.enter_context(mock.patch.object(guards, "_reinterpret_tensor", _reinterpreted))
        namespace: dict[str, Any] = {"__name__": "generated_wrapper", **lowered.constants}
        exec(compile(lowered.wrapper, "generated_wrapper", "exec"), namespace)
        with _Recording(done):
            namespace["call"](list(lowered.inputs))
    return done


def _nothing(*_: Any) -> None:
    """There is nothing to wait for."""


def _without_data(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device="meta")


def _reinterpreted(tensor: torch.Tensor, size: Any, stride: Any, offset: int = 0) -> torch.Tensor:
    return torch.as_strided(tensor, size, stride, tensor.storage_offset() + offset)


class _Recording(TorchDispatchMode):
    def __init__(self, done: Replayed) -> None:
        super().__init__()
        self._done = done

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = pytree.tree_map_only(torch.device, lambda _: torch.device("meta"), (args, kwargs or {}))
        result = func(*args, **kwargs)
        packet = func.overloadpacket
        if packet not in _NOTHING_RUNS:
            tensors = [t for t in pytree.tree_leaves((args, kwargs, result)) if isinstance(t, torch.Tensor)]
            counted = flop_registry.get(packet)
            flops = 0 if counted is None else int(counted(*args, **kwargs, out_val=result))
            distinct = {(t.untyped_storage()._cdata, t.storage_offset(), tuple(t.shape)): t for t in tensors}
            self._done.steps.append(Called(func, args, kwargs, list(distinct.values()), flops))
        return result
