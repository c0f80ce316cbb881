"""A contender whose inputs and outputs are torch tensors. Gradients are off: set once by `compiling.load`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils import _pytree as pytree

import optimizer.compiling.errors  # noqa: F401  (fills the catalogue)
from optimizer.compiling.contender import as_declared
from optimizer.errors import FuseworksError
from optimizer.spec import Workload

PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})


class Staged(NamedTuple):
    """Tensors in the workload's order, and the same tensors as the arguments of a call. A tuple, so that a verifier
    finds the tensors in it."""

    tensors: list[torch.Tensor]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass
class TorchContender:
    """`in_spec` is the call's structure where the captured model does not simply take its inputs one by one."""

    function: Callable[..., Any]
    workload: Workload
    device: str = "cpu"
    inference_precision: str = "float32"
    in_spec: pytree.TreeSpec | None = None
    prepare: Callable[[list[torch.Tensor]], None] | None = None

    def stage(self, arrays: Sequence[np.ndarray]) -> Staged:
        tensors = [
            # torch.tensor copies, into memory aligned as torch aligns it: the caller's may be read-only or unaligned
            torch.tensor(as_declared(spec, array), dtype=getattr(torch, spec.dtype), device=self.device)
            for spec, array in zip(self.workload.inputs, arrays, strict=True)
        ]
        if self.prepare is not None:
            self.prepare(tensors)
        if self.in_spec is None:
            return Staged(tensors, tuple(tensors), {})
        args, kwargs = pytree.tree_unflatten(tensors, self.in_spec)
        return Staged(tensors, tuple(args), dict(kwargs))

    def call(self, native: Staged) -> Any:
        return self.function(*native.args, **native.kwargs)

    def outputs(self, native_outputs: Any) -> list[np.ndarray]:
        """Raises FuseworksError (`compiling:user:worked-out-later`)."""
        leaves = [leaf for leaf in pytree.tree_leaves(native_outputs) if isinstance(leaf, torch.Tensor)]
        for leaf in leaves:
            if type(leaf) not in PLAIN:
                raise FuseworksError("compiling:user:worked-out-later", kind=type(leaf).__name__[:80])
        return [to_numpy(leaf) for leaf in leaves]

    def inputs_after(self, native: Staged) -> list[np.ndarray]:
        return [to_numpy(tensor) for tensor in native.tensors]


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """A copy that may travel."""
    tensor = tensor.detach()
    if tensor.dtype in (torch.float16, torch.bfloat16):
        tensor = tensor.float()
    array: np.ndarray = np.array(tensor.cpu().numpy(), copy=True, order="C")
    return array
