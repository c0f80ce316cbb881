"""What a fused operation is: one object that holds its formula, reference, Triton launch, gradient, samples and cost.

`register` turns a `Kernel` class into the custom operation `fuseworks::<name>`: on a CPU it runs the reference, on a
CUDA device it launches Triton, under fake tensors it gives shapes. Triton is imported at the first launch only, so a
machine without it still runs, saves and lowers graphs that hold the operation.
"""

from __future__ import annotations

import functools
import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from kernels import KERNELS

NAMESPACE = "fuseworks"


@dataclass(frozen=True)
class Tolerance:
    """Allowed error of one element: `absolute + relative * |reference|`, the reference being float64."""

    absolute: float
    relative: float


@dataclass(frozen=True)
class Sample:
    """One argument list, named for the test report."""

    name: str
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Cost:
    """What one call must move and compute at the least."""

    bytes: int
    flops: int


@dataclass(frozen=True)
class Match:
    """A piece of a graph that equals one call of the operation.

    `args` are the operation's arguments (nodes or constants); `outputs` gives for each of its outputs the node that it
    replaces, or None; `inside` are the nodes that vanish: they must have no user outside `inside` and `outputs`.
    """

    args: tuple[Any, ...]
    outputs: tuple[Node | None, ...]
    inside: tuple[Node, ...]


@dataclass(frozen=True)
class Mismatch:
    """Looked like the operation and is not: `reason`, at `node`."""

    reason: str
    node: Node


class Kernel(ABC):
    """Base of a fused operation. The subclass's module docstring holds the formula and its sources."""

    name: str
    schema: str
    """Signature without the name, as `torch.library` writes it: `(Tensor x, float eps) -> Tensor`."""
    tolerances: dict[torch.dtype, Tolerance]
    passes: tuple[str, ...] = ()
    """The passes that put this operation into a graph by `match`."""

    @abstractmethod
    def reference(self, *args: Any) -> Any:
        """The formula in plain torch. Computes in float64 when the inputs are float64, else in float32."""

    @abstractmethod
    def launch_into(self, outputs: Sequence[Tensor], *args: Any) -> None:
        """Runs the Triton kernel on contiguous outputs that exist already."""

    @abstractmethod
    def fake(self, *args: Any) -> tuple[Tensor, ...]:
        """Empty outputs of the right shape, dtype and strides. Also allocates the real ones for `launch`."""

    @abstractmethod
    def setup_context(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Saves what `backward` needs."""

    @abstractmethod
    def backward(self, ctx: Any, *grads: Tensor | None) -> Any:
        """Gradients of all arguments, None for those that have none. Traceable: plain torch only."""

    @abstractmethod
    def samples(self, dtype: torch.dtype) -> list[Sample]:
        """Ordinary arguments, odd shapes among them. The same at every call."""

    @abstractmethod
    def edges(self, dtype: torch.dtype) -> list[Sample]:
        """Arguments at which such kernels go wrong: zeros, huge values, constant rows."""

    @abstractmethod
    def supports(self, *args: Any) -> str | None:
        """None when the operation takes these (real or fake) tensors, else the reason why not."""

    @abstractmethod
    def cost(self, *args: Any) -> Cost:
        """Least bytes and floating point operations of a call."""

    def match(self, anchor: Node) -> Match | Mismatch | None:
        """What this operation would replace, seen from `anchor`; None when the anchor is something else."""
        return None

    def launch(self, *args: Any) -> tuple[Tensor, ...]:
        outputs = self.fake(*args)
        self.launch_into(outputs, *args)
        return outputs

    @property
    def op(self) -> torch._ops.OpOverload:
        """The node target that graphs hold."""
        return getattr(torch.ops.fuseworks, self.name).default

    @property
    def formula(self) -> str:
        return importlib.import_module(type(self).__module__).__doc__ or ""

    def manifest(self) -> dict[str, Any]:
        """What a worker publishes about the kernel, for pages that show it without torch."""
        return {
            "name": self.name,
            "operation": f"{NAMESPACE}::{self.name}",
            "schema": self.schema,
            "formula": self.formula,
            "dtypes": sorted(str(dtype).removeprefix("torch.") for dtype in self.tolerances),
            "passes": list(self.passes),
        }


def register(definition: type[Kernel]) -> type[Kernel]:
    """Class decorator: defines `fuseworks::<name>` and files the kernel in the registry."""
    kernel = definition()
    KERNELS.register(lambda: kernel)

    # The library wants plain functions, not bound methods.
    def on_cpu(*args: Any) -> Any:
        return kernel.reference(*args)

    def on_cuda(*args: Any) -> Any:
        if args[0].dtype == torch.float64:  # the Triton kernels compute in float32
            return kernel.reference(*args)
        with torch.cuda.device(args[0].device):
            return kernel.launch(*args)

    op = torch.library.custom_op(
        f"{NAMESPACE}::{kernel.name}", on_cpu, mutates_args=(), device_types="cpu", schema=kernel.schema
    )
    op.register_kernel("cuda")(on_cuda)
    op.register_fake(lambda *args: kernel.fake(*args))
    op.register_autograd(
        lambda ctx, *grads: kernel.backward(ctx, *grads),
        setup_context=lambda ctx, inputs, output: kernel.setup_context(ctx, inputs, output),
    )
    return definition


@functools.cache
def jit(function: Callable[..., None]) -> Any:
    """The Triton kernel of a plain function, made at its first launch so that its module imports without triton.

    The function's module must hold a global `tl`; it is set here, for a kernel's names are looked up in its globals.
    """
    import triton
    import triton.language

    function.__globals__["tl"] = triton.language
    return triton.jit(function)


def same_shape(a: Tensor, b: Tensor) -> bool:
    """Whether two shapes are equal for all values of their symbols. Adds no guard to symbolic sizes."""
    return len(a.shape) == len(b.shape) and all(same_size(x, y) for x, y in zip(a.shape, b.shape, strict=True))


def same_size(a: int | torch.SymInt, b: int | torch.SymInt) -> bool:
    if isinstance(a, torch.SymInt) and isinstance(b, torch.SymInt):
        return bool(a.node.expr == b.node.expr)
    if isinstance(a, torch.SymInt) or isinstance(b, torch.SymInt):
        return False
    return a == b
