"""Whether a kernel's Triton code equals its reference in float64: one case, on a GPU or under Triton's interpreter.

Outputs lie between canaries and start poisoned, inputs lie between huge values and must stay as they were. The truth is
the reference in float64, on the CPU, on the same (already rounded) inputs. Not for speed: see `benchmarks/gpu_check`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.spec import Configuration, Kernel, Sample, as_tuple

CANARIES = {torch.int8: -77, torch.bool: True, torch.uint8: 177}
PADDING = 64  # elements; a multiple of 16 bytes in every dtype, so that the tensor between stays aligned


@dataclass(frozen=True)
class Case:
    """One kernel, on one argument list, in one dtype and configuration. `edge`: its arguments are chosen to hurt."""

    kernel: Kernel
    dtype: torch.dtype
    sample: Sample
    configuration: Configuration
    edge: bool = False

    @property
    def name(self) -> str:
        return f"{plain(self.dtype)} {self.sample.name} ({self.configuration.name})"


@dataclass(frozen=True)
class Outcome:
    """`error_share`: the worst element's error by what is allowed of it; above 1 it is wrong."""

    error_share: float
    canaries_intact: bool
    inputs_unchanged: bool
    seconds: float

    @property
    def fault(self) -> str | None:
        """What is wrong, in words; None when all is well."""
        if not self.canaries_intact:
            return "a store or load went past the end of a buffer"
        if not self.inputs_unchanged:
            return "it changed its inputs"
        if self.error_share > 1:
            times = "infinitely" if math.isinf(self.error_share) else f"{self.error_share:.3g} times"
            return f"the worst element is {times} as far from the reference as is allowed"
        return None


def cases(kernel: Kernel) -> Iterator[Case]:
    """Every dtype, sample, edge and configuration."""
    for dtype in kernel.tolerances:
        for edge, samples in ((False, kernel.samples(dtype)), (True, kernel.edges(dtype))):
            for sample in samples:
                for configuration in kernel.configurations(*sample.args):
                    yield Case(kernel, dtype, sample, configuration, edge)


def check(case: Case, device: str = "cpu") -> Outcome:
    """Raises what the launch raises: a compiler that refuses, a device that has too little of something."""
    started = time.perf_counter()
    kernel, sample = case.kernel, case.sample
    inputs = [guarded(on(argument, device)) for argument in sample.args]
    given = [argument for argument, _ in inputs]
    outputs = [padded(like) for like in kernel.fake(*given)]
    kernel.launch_into([inner for inner, _ in outputs], *given, configuration=case.configuration)
    exact = as_tuple(kernel.reference(*[in_float64(argument) for argument in sample.args]))
    written = kernel.mutated(given)
    got = [inner for inner, _ in outputs] + written
    shares = [error_share(kernel, one.cpu(), want, case.dtype) for one, want in zip(got, exact, strict=True)]
    unchanged = all(
        torch.equal(a.cpu().nan_to_num(nan=7.0), b.nan_to_num(nan=7.0))
        for a, b in zip(given, sample.args, strict=True)
        if isinstance(a, Tensor) and isinstance(b, Tensor) and not any(a is one for one in written)
    )
    buffers = [buffer for _, buffer in outputs] + [buffer for _, buffer in inputs if buffer is not None]
    return Outcome(
        error_share=max(shares),
        canaries_intact=all(intact(buffer) for buffer in buffers),
        inputs_unchanged=unchanged,
        seconds=round(time.perf_counter() - started, 4),
    )


def check_operation(kernel: Kernel, sample: Sample, dtype: torch.dtype, device: str) -> str | None:
    """What is wrong with the operation as graphs call it, through torch's dispatcher; None when all is well."""
    given = [a.to(device, copy=True) if isinstance(a, Tensor) else a for a in sample.args]
    got = [*as_tuple(kernel.op(*given)), *kernel.mutated(given)]
    exact = as_tuple(kernel.reference(*[in_float64(argument) for argument in sample.args]))
    shares = [error_share(kernel, one.cpu(), want, dtype) for one, want in zip(got, exact, strict=True)]
    return Outcome(max(shares), canaries_intact=True, inputs_unchanged=True, seconds=0.0).fault


def error_share(kernel: Kernel, got: Tensor, want: Tensor, dtype: torch.dtype) -> float:
    """How much of the allowed error the worst element has. Infinities and NaN must be where the reference has them."""
    if not want.numel():
        return 0.0
    if not got.is_floating_point():
        beyond = (got.long() - want.long()).abs().amax().item() > kernel.integer_tolerance
        return float("inf") if beyond else 0.0
    tolerance = kernel.tolerances[dtype]
    exact = want.to(got.dtype).double()
    same = (got.double() == exact) | (got.isnan() & want.isnan())
    allowed = tolerance.absolute + tolerance.relative * want.abs()
    shares = (got.double() - want).abs() / allowed  # 0 / 0 is NaN, and then the two are the same
    return float(torch.where(same, 0.0, shares.nan_to_num(nan=float("inf"), posinf=float("inf"))).amax().item())


def canary(dtype: torch.dtype) -> float:
    return CANARIES.get(dtype, -12345)


def padded(like: Tensor) -> tuple[Tensor, Tensor]:
    """A poisoned contiguous tensor and the buffer around it."""
    buffer = torch.full((like.numel() + 2 * PADDING,), canary(like.dtype), dtype=like.dtype, device=like.device)
    inner = buffer[PADDING : PADDING + like.numel()].view(like.shape)
    inner.fill_(float("nan") if like.is_floating_point() else canary(like.dtype))
    return inner, buffer


def intact(buffer: Tensor) -> bool:
    expected = torch.tensor(canary(buffer.dtype), dtype=buffer.dtype, device=buffer.device)
    return bool((buffer[:PADDING] == expected).all() and (buffer[-PADDING:] == expected).all())


def guarded(argument: object) -> tuple[object, Tensor | None]:
    """An input between huge values: a read beyond its end would show in the result."""
    if not isinstance(argument, Tensor) or not argument.is_contiguous():
        return argument, None
    inner, buffer = padded(argument)
    inner.copy_(argument)
    return inner, buffer


def on(argument: object, device: str) -> object:
    """The argument there, with the strides that it has."""
    return argument.to(device) if isinstance(argument, Tensor) else argument


def in_float64(argument: object) -> object:
    return argument.double() if isinstance(argument, Tensor) and argument.is_floating_point() else argument


def plain(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
