"""Runs the Triton kernels under Triton's interpreter in a process of its own; prints one JSON line per case.

The interpreter must be chosen before triton is imported, so tests start this file with TRITON_INTERPRET=1. Outputs lie
between canaries and start as NaN; the truth is the reference in float64 on the same (already rounded) inputs.
"""

from __future__ import annotations

import importlib
import json

import torch

import kernels
from kernels import rows
from kernels.spec import Kernel, Sample, jit
from tests.kernels import interpreter_errors

CANARY = -12345.0
PADDING = 64


def padded(like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A poisoned contiguous tensor and the buffer around it."""
    buffer = torch.full((like.numel() + 2 * PADDING,), CANARY, dtype=like.dtype)
    inner = buffer[PADDING : PADDING + like.numel()].view(like.shape)
    inner.fill_(float("nan"))
    return inner, buffer


def intact(buffer: torch.Tensor) -> bool:
    canary = torch.tensor(CANARY, dtype=buffer.dtype)
    return bool((buffer[:PADDING] == canary).all() and (buffer[-PADDING:] == canary).all())


def guarded(argument: object) -> tuple[object, torch.Tensor | None]:
    """An input between huge values: a read beyond its end would show in the result."""
    if not isinstance(argument, torch.Tensor) or not argument.is_contiguous():
        return argument, None
    inner, buffer = padded(argument)
    inner.copy_(argument)
    return inner, buffer


def check(kernel: Kernel, sample: Sample, dtype: torch.dtype) -> dict[str, object]:
    inputs = [guarded(a) for a in sample.args]
    outputs = [padded(f) for f in kernel.fake(*sample.args)]
    kernel.launch_into([inner for inner, _ in outputs], *[a for a, _ in inputs])
    exact = kernel.reference(*[a.double() if isinstance(a, torch.Tensor) else a for a in sample.args])
    tolerance = kernel.tolerances[dtype]
    excess = [
        ((got.double() - want).abs() - tolerance.relative * want.abs()).nan_to_num(nan=float("inf")).amax().item()
        for (got, _), want in zip(outputs, exact, strict=True)
        if want.numel()
    ]
    buffers = [b for _, b in outputs] + [b for _, b in inputs if b is not None]
    unchanged = all(
        torch.equal(a, b) for (a, _), b in zip(inputs, sample.args, strict=True) if isinstance(b, torch.Tensor)
    )
    return {
        "kernel": kernel.name,
        "dtype": str(dtype),
        "sample": sample.name,
        "excess": max(excess, default=0.0),
        "allowed": tolerance.absolute,
        "canaries_intact": all(intact(b) for b in buffers),
        "inputs_unchanged": unchanged,
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


def main() -> None:
    torch.set_num_threads(1)
    print(json.dumps(interpreter_errors.report()))  # installs the corrections
    kernels.load()
    for kernel in kernels.KERNELS:
        for dtype in kernel.tolerances:
            for sample in kernel.samples(dtype) + kernel.edges(dtype):
                print(json.dumps(check(kernel, sample, dtype)))
    print(json.dumps(control()))


if __name__ == "__main__":
    main()
