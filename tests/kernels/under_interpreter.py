"""Runs the Triton kernels under Triton's interpreter in a process of its own; prints one JSON line per case.

The interpreter must be chosen before triton is imported, so tests start this file with TRITON_INTERPRET=1. Each kernel
runs in each configuration, dtype and sample. Outputs lie between canaries and start poisoned; the truth is the
reference in float64 on the same (already rounded) inputs.
"""

from __future__ import annotations

import importlib
import json
import sys
import time

import torch

import kernels
from kernels import rows
from kernels.spec import Configuration, Kernel, Sample, as_tuple, jit
from tests.kernels import interpreter_errors

CANARIES = {torch.int8: -77, torch.bool: True, torch.uint8: 177}
PADDING = 64


def canary(dtype: torch.dtype) -> float:
    return CANARIES.get(dtype, -12345)


def padded(like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A poisoned contiguous tensor and the buffer around it."""
    buffer = torch.full((like.numel() + 2 * PADDING,), canary(like.dtype), dtype=like.dtype)
    inner = buffer[PADDING : PADDING + like.numel()].view(like.shape)
    inner.fill_(float("nan") if like.is_floating_point() else canary(like.dtype))
    return inner, buffer


def intact(buffer: torch.Tensor) -> bool:
    expected = torch.tensor(canary(buffer.dtype), dtype=buffer.dtype)
    return bool((buffer[:PADDING] == expected).all() and (buffer[-PADDING:] == expected).all())


def guarded(argument: object) -> tuple[object, torch.Tensor | None]:
    """An input between huge values: a read beyond its end would show in the result."""
    if not isinstance(argument, torch.Tensor) or not argument.is_contiguous():
        return argument, None
    inner, buffer = padded(argument)
    inner.copy_(argument)
    return inner, buffer


def in_float64(argument: object) -> object:
    if isinstance(argument, torch.Tensor) and argument.is_floating_point():
        return argument.double()
    return argument


def excess(kernel: Kernel, got: torch.Tensor, want: torch.Tensor, dtype: torch.dtype) -> float:
    """How far the worst element is beyond what its own size allows, in units of the allowed absolute error."""
    if not want.numel():
        return 0.0
    if not got.is_floating_point():
        beyond = (got.long() - want.long()).abs().amax().item() > kernel.integer_tolerance
        return float("inf") if beyond else 0.0
    tolerance = kernel.tolerances[dtype]
    exact = want.to(got.dtype).double()
    same = (got.double() == exact) | (got.isnan() & want.isnan())  # infinities of the dtype included
    distance = (got.double() - want).abs() - tolerance.relative * want.abs()
    worst = torch.where(same, 0.0, distance.nan_to_num(nan=float("inf"))).amax().item()
    return max(worst, 0.0)


def check(kernel: Kernel, sample: Sample, dtype: torch.dtype, configuration: Configuration) -> dict[str, object]:
    started = time.process_time()
    inputs = [guarded(a) for a in sample.args]
    outputs = [padded(f) for f in kernel.fake(*sample.args)]
    kernel.launch_into([inner for inner, _ in outputs], *[a for a, _ in inputs], configuration=configuration)
    exact = as_tuple(kernel.reference(*[in_float64(a) for a in sample.args]))
    given = [a for a, _ in inputs]
    written = kernel.mutated(given)
    got = [inner for inner, _ in outputs] + written
    worst = [excess(kernel, one, want, dtype) for one, want in zip(got, exact, strict=True)]
    buffers = [b for _, b in outputs] + [b for _, b in inputs if b is not None]
    unchanged = all(
        torch.equal(a.nan_to_num(nan=7.0), b.nan_to_num(nan=7.0))
        for a, b in zip(given, sample.args, strict=True)
        if isinstance(b, torch.Tensor) and not any(a is one for one in written)
    )
    return {
        "kernel": kernel.name,
        "dtype": str(dtype),
        "sample": sample.name,
        "configuration": configuration.name,
        "excess": max(worst),
        "allowed": kernel.tolerances[dtype].absolute,
        "canaries_intact": all(intact(b) for b in buffers),
        "inputs_unchanged": unchanged,
        "seconds": round(time.process_time() - started, 4),
    }


def control() -> dict[str, object]:
    """The negative control: told of one row too many, a kernel writes past its outputs, and canaries must say so."""
    module = importlib.import_module("kernels.ops.add_rms_norm")
    x = torch.ones(2, 8)
    outputs = [padded(x), padded(x)]
    tile = rows.tile(8)
    sizes = {"ROWS": tile.rows, "COLUMNS": tile.columns, "WHOLE": True}
    jit(module._kernel)[(1,)](x, x, x, outputs[0][0], outputs[1][0], 3, 8, 1e-6, HAS_WEIGHT=False, **sizes)
    return {"kernel": "control", "canaries_intact": all(intact(b) for _, b in outputs)}


def main(chosen: list[str]) -> None:
    """`chosen`: only these kernels; none: all."""
    torch.set_num_threads(1)
    print(json.dumps(interpreter_errors.report()))  # installs the corrections
    kernels.load()
    for kernel in kernels.KERNELS:
        if chosen and kernel.name not in chosen:
            continue
        for dtype in kernel.tolerances:
            for sample in kernel.samples(dtype) + kernel.edges(dtype):
                for configuration in kernel.configurations(*sample.args):
                    print(json.dumps(check(kernel, sample, dtype, configuration)))
    print(json.dumps(control()))


if __name__ == "__main__":
    main(sys.argv[1:])
