"""What a fused operation is: one object that holds its formula, reference, Triton launch, gradient, samples and cost.

`register` turns a `Kernel` class into the custom operation `fuseworks::<name>`: on a CPU it runs the reference, on a
CUDA device it launches Triton, under fake tensors it gives shapes. Triton is imported at the first launch only, so a
machine without it still runs, saves and lowers graphs that hold the operation.
"""

from __future__ import annotations

import functools
import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.fx import Node

from kernels import KERNELS, patterns
from kernels.patterns import Found, Pattern

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
class Configuration:
    """One choice of a Triton function's tunable constants and launch options."""

    constants: Mapping[str, int]
    num_warps: int = 4
    num_stages: int = 2

    def __getitem__(self, name: str) -> int:
        return self.constants[name]

    @property
    def name(self) -> str:
        sizes = [f"{name}={value}" for name, value in self.constants.items()]
        return " ".join([*sizes, f"warps={self.num_warps}", f"stages={self.num_stages}"])


@dataclass(frozen=True)
class Launch:
    """One start of a Triton function. `args` are tensors (pointers) and numbers, in the order of the function's first
    parameters; `constants` are all others, by name. On meta tensors it tells all that compiling needs."""

    function: Callable[..., None]
    grid: tuple[int, ...]
    args: tuple[Any, ...]
    constants: Mapping[str, Any]
    num_warps: int = 4
    num_stages: int = 2

    def run(self) -> Any:
        """Gives back what Triton compiled for it; nothing under the interpreter."""
        options = {"num_warps": self.num_warps, "num_stages": self.num_stages}
        return jit(self.function)[self.grid](*self.args, **self.constants, **options)


@dataclass(frozen=True)
class Match:
    """A piece of a graph that equals one call of the operation.

    `args` are the operation's arguments (nodes, constants, or `Made`); `outputs` gives for each of its outputs the node
    that it replaces, or None; `inside` are the nodes that vanish: no user outside `inside` and `outputs` may they have.
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

    name: ClassVar[str]
    schema: ClassVar[str]
    """Signature without the name, as `torch.library` writes it: `(Tensor x, float eps) -> Tensor`."""
    tolerances: ClassVar[Mapping[torch.dtype, Tolerance]]
    """Allowed error by the dtype of the inputs."""
    integer_tolerance: ClassVar[int] = 0
    """By how much an element of an integer output may differ: 1 where a value may be rounded either way."""
    patterns: ClassVar[Mapping[str, Pattern]] = {}
    """What `match` looks for, by the spelling's name; each is rooted at the node that the operation replaces."""
    spellings: ClassVar[tuple[str, ...]] = ()
    """Names of the spellings when `match` is written by hand."""
    breadth: ClassVar[int] = 1
    """How much of a graph a match takes away: larger ones are looked for first."""
    differentiable: ClassVar[bool] = True
    mutates: ClassVar[tuple[str, ...]] = ()
    """Arguments that are written. Then there is no output: `reference` gives their new values, in this order, and
    `launches` writes into the arguments."""
    untrained: ClassVar[tuple[str, ...]] = ()
    """Floating point arguments that get no gradient."""
    capability: ClassVar[int] = 80
    """Least compute capability on CUDA, as in `sm_80`."""
    reasons: ClassVar[Mapping[str, str]] = {}
    """Why it has an exception when compiled, by its kind (`aot/causes.py`), where figures alone do not show it."""

    @abstractmethod
    def reference(self, *args: Any, **kwargs: Any) -> Any:
        """The formula in plain torch. Computes in float64 when the inputs are float64, else in float32."""

    @abstractmethod
    def fake(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        """Empty outputs of the right shape, dtype and strides. Also allocates the real ones for `launch`."""

    @abstractmethod
    def configurations(self, *args: Any, **kwargs: Any) -> tuple[Configuration, ...]:
        """What tuning may choose from for these arguments; the first is the default."""

    @abstractmethod
    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        """The Triton launches, in order, that fill contiguous outputs which exist already. None for empty outputs."""

    @abstractmethod
    def samples(self, dtype: torch.dtype) -> list[Sample]:
        """Ordinary arguments, small, odd shapes among them. The same at every call."""

    @abstractmethod
    def edges(self, dtype: torch.dtype) -> list[Sample]:
        """Arguments at which such kernels go wrong: zeros, huge values, constant rows, nothing at all."""

    @abstractmethod
    def typical(self, dtype: torch.dtype) -> Sample:
        """Arguments of a size met in production, on the meta device: for compiling ahead of time and for bounds."""

    @abstractmethod
    def check(self, *args: Any, **kwargs: Any) -> str | None:
        """None when the operation takes these (real or fake) tensors, else the reason why not."""

    @abstractmethod
    def cost(self, *args: Any, **kwargs: Any) -> Cost:
        """Least bytes and floating point operations of a call."""

    # ---- what follows from the above; a kernel may know better -----------------------------------------------------

    def supports(self, *args: Any, target: str | None = None) -> str | None:
        """None when the operation takes these (real or fake) tensors on the target, else the reason why not."""
        return self.check(*args) or (None if target is None else self.missing_on(target))

    def missing_on(self, target: str) -> str | None:
        """Why no Triton code runs there; a CPU has the reference."""
        kind, _, arch = target.partition(":")
        if kind == "cuda" and arch.removeprefix("sm_").isdigit():
            found = int(arch.removeprefix("sm_"))
            return None if found >= self.capability else f"needs sm_{self.capability}, the target is sm_{found}"
        return None if kind in ("cpu", "cuda", "rocm") else f"there is no Triton for the target {target}"

    def setup_context(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Saves what `backward` needs."""
        ctx.save_for_backward(*[a for a in inputs if isinstance(a, Tensor)])
        ctx.others = [None if isinstance(a, Tensor) else (a,) for a in inputs]

    def backward(self, ctx: Any, *grads: Tensor | None) -> Any:
        """Gradients of all arguments, None for those that have none. Traceable: plain torch only.

        Computes the reference anew and differentiates that, which saves the inputs alone.
        """
        saved = iter(ctx.saved_tensors)
        args = [next(saved) if other is None else other[0] for other in ctx.others]
        wanted = [bool(w) and isinstance(a, Tensor) for w, a in zip(ctx.needs_input_grad, args, strict=True)]
        with torch.enable_grad():
            leaves = [a.detach().requires_grad_() if w else a for w, a in zip(wanted, args, strict=True)]
            outputs = as_tuple(self.reference(*leaves))
        pairs = [(o, g) for o, g in zip(outputs, grads, strict=True) if g is not None and o.requires_grad]
        inputs = [leaf for w, leaf in zip(wanted, leaves, strict=True) if w]
        if not pairs or not inputs:
            return (None,) * len(args)
        found = iter(torch.autograd.grad([o for o, _ in pairs], inputs, [g for _, g in pairs], allow_unused=True))
        return tuple(next(found) if w else None for w in wanted)

    def match(self, anchor: Node) -> Match | Mismatch | None:
        """What this operation would replace, seen from `anchor`; None when the anchor is something else."""
        missed = None
        for pattern in self.patterns.values():
            found = patterns.find(pattern, anchor)
            if found is None:
                continue
            args = self.arguments(found)
            one = Mismatch(args, anchor) if isinstance(args, str) else self.complete(args, (anchor,), found.inside)
            if isinstance(one, Match):
                return one
            missed = missed or one
        return missed

    def arguments(self, found: Found) -> tuple[Any, ...] | str:
        """The operation's arguments out of what a pattern captured, or why it is not this operation after all."""
        raise NotImplementedError(f"{self.name} has patterns but does not say what they capture")

    def complete(
        self, args: tuple[Any, ...], outputs: tuple[Node | None, ...], inside: Sequence[Node]
    ) -> Match | Mismatch:
        """The match, once shapes and dtypes of arguments and outputs are found to fit."""
        anchor = next(node for node in outputs if node is not None)
        values = [patterns.value_of(a) for a in args]
        fault = self.check(*values)
        if fault is not None:
            return Mismatch(fault, anchor)
        with next(v.fake_mode for v in values if isinstance(v, Tensor)):
            promised = self.fake(*values)
        for node, ours in zip(outputs, promised, strict=True):
            if node is None:
                continue
            theirs = node.meta["val"]
            if theirs.dtype != ours.dtype:
                return Mismatch(f"the result is {theirs.dtype} in the graph, {ours.dtype} here", node)
            if not same_shape(theirs, ours):
                return Mismatch(f"the result is {tuple(theirs.shape)} in the graph, {tuple(ours.shape)} here", node)
        return Match(args, outputs, tuple(n for n in inside if n not in outputs))

    def launch_into(self, outputs: Sequence[Tensor], *args: Any, configuration: Configuration | None = None) -> None:
        """Runs the Triton code on contiguous outputs that exist already."""
        for launch in self.launches(outputs, configuration or self.configurations(*args)[0], *args):
            launch.run()

    def mutated(self, args: Sequence[Any]) -> list[Tensor]:
        """The arguments that are written."""
        names = [argument.name for argument in self.op._schema.arguments]
        return [args[names.index(name)] for name in self.mutates]

    def run_reference(self, *args: Any) -> Any:
        """What the operation does without Triton: the reference, with outputs of their own or written in place."""
        found = as_tuple(self.reference(*args))
        if not self.mutates:
            return _unpacked(tuple(_owned(out, args) for out in found))
        for old, new in zip(self.mutated(args), found, strict=True):
            old.copy_(new)
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
        dtypes = sorted(self.tolerances, key=str)
        return {
            "name": self.name,
            "operation": f"{NAMESPACE}::{self.name}",
            "schema": self.schema,
            "formula": self.formula,
            "dtypes": [_plain(dtype) for dtype in dtypes],
            "targets": ["cpu", f"cuda:sm_{self.capability} and later", "rocm"],
            "patterns": [*self.patterns, *self.spellings],
            "configurations": [c.name for c in self.configurations(*self.typical(dtypes[0]).args)],
            "differentiable": self.differentiable,
            "tolerances": {
                _plain(dtype): {"absolute": t.absolute, "relative": t.relative} for dtype, t in self.tolerances.items()
            },
        }


def register(definition: type[Kernel]) -> type[Kernel]:
    """Class decorator: defines `fuseworks::<name>` and files the kernel in the registry."""
    kernel = definition()
    KERNELS.register(lambda: kernel)

    # The library wants plain functions, not bound methods.
    def on_cpu(*args: Any) -> Any:
        return kernel.run_reference(*args)

    def on_cuda(*args: Any) -> Any:
        first = next(a for a in args if isinstance(a, Tensor))
        if any(isinstance(a, Tensor) and a.dtype == torch.float64 for a in args):
            return on_cpu(*args)  # the Triton kernels compute in float32
        with torch.cuda.device(first.device):
            return _unpacked(kernel.launch(*args))

    op = torch.library.custom_op(
        f"{NAMESPACE}::{kernel.name}", on_cpu, mutates_args=kernel.mutates, device_types="cpu", schema=kernel.schema
    )
    op.register_kernel("cuda")(on_cuda)
    op.register_fake(lambda *args: _unpacked(kernel.fake(*args)))
    if kernel.differentiable:
        op.register_autograd(
            lambda ctx, *grads: kernel.backward(ctx, *grads),
            setup_context=lambda ctx, inputs, output: kernel.setup_context(ctx, inputs, output),
        )
    return definition


def as_tuple(outputs: Any) -> tuple[Tensor, ...]:
    if outputs is None:
        return ()
    return outputs if isinstance(outputs, tuple) else (outputs,)


def _unpacked(outputs: tuple[Tensor, ...]) -> Any:
    if not outputs:
        return None
    return outputs[0] if len(outputs) == 1 else outputs


def _owned(output: Tensor, args: tuple[Any, ...]) -> Tensor:
    """Contiguous, and never an argument itself: an operation's outputs may alias nothing."""
    output = output.contiguous()
    return output.clone() if any(output is a for a in args) else output


def _plain(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def configuration(num_warps: int = 4, num_stages: int = 2, **constants: int) -> Configuration:
    return Configuration(constants, num_warps, num_stages)


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def power_of_two(size: int, least: int = 1) -> int:
    """The smallest power of two that is not below the size."""
    return max(least, 1 << max(size - 1, 0).bit_length())


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
