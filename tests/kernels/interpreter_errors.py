"""Tries bfloat16 in Triton's interpreter before and after `interpreter.install()`, for `under_interpreter`.

Imported only where TRITON_INTERPRET=1 was set first. `before` tells when a later Triton needs a correction no more.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import triton
import triton.language as tl

from kernels import interpreter

N = 32


@triton.jit
def add_kernel(a_ptr, b_ptr, c_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(a_ptr + i) + tl.load(b_ptr + i))


@triton.jit
def greater_kernel(a_ptr, b_ptr, c_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.where(tl.load(a_ptr + i) > tl.load(b_ptr + i), tl.load(a_ptr + i), tl.load(b_ptr + i)))


@triton.jit
def dot_kernel(a_ptr, b_ptr, c_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(out_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at)))


@triton.jit
def round_kernel(a_ptr, b_ptr, c_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(a_ptr + i).to(tl.bfloat16))


@triton.jit
def round_rtne_kernel(a_ptr, b_ptr, c_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(a_ptr + i).to(tl.bfloat16, fp_downcast_rounding="rtne"))


@triton.jit
def truncate_kernel(a_ptr, b_ptr, c_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(a_ptr + i).to(tl.bfloat16, fp_downcast_rounding="rtz"))


@triton.jit
def fma_kernel(a_ptr, b_ptr, c_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.fma(tl.load(a_ptr + i), tl.load(b_ptr + i), tl.load(c_ptr + i)))


@triton.jit
def constant_kernel(a_ptr, b_ptr, c_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.full((N,), 1.5, tl.bfloat16) + tl.load(a_ptr + i))


@triton.jit
def atomic_kernel(a_ptr, b_ptr, c_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_add(out_ptr + i, tl.load(a_ptr + i))


def truncated(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy().view(np.uint32) & np.uint32(0xFFFF0000)).view(torch.float32).bfloat16()


def cases() -> dict[str, tuple[object, list[torch.Tensor], torch.Tensor]]:
    draw = torch.Generator().manual_seed(0)
    a, b, c = (torch.randn(N, generator=draw).bfloat16() for _ in range(3))
    m, n = (torch.randn(N, N, generator=draw).bfloat16() for _ in range(2))
    wide = torch.randn(N, generator=draw)
    # A tie to even, a tie to odd, a carry into the exponent, the largest below infinity, and what is no number.
    wide[:6] = torch.tensor([1.00390625, 1.01171875, 1.9999999, 3.3961775e38, float("inf"), float("nan")])
    return {
        "add": (add_kernel, [a, b, c], a + b),
        "greater": (greater_kernel, [a, b, c], torch.maximum(a, b)),
        "dot": (dot_kernel, [m, n, c], m.float() @ n.float()),
        "round": (round_kernel, [wide, b, c], wide.bfloat16()),
        "round_rtne": (round_rtne_kernel, [wide, b, c], wide.bfloat16()),
        "truncate": (truncate_kernel, [wide.nan_to_num(nan=1.0), b, c], truncated(wide.nan_to_num(nan=1.0))),
        "fma": (fma_kernel, [a, b, c], (a.float() * b.float() + c.float()).bfloat16()),
        "constant": (constant_kernel, [a, b, c], a + 1.5),
    }


def outcome(kernel: object, inputs: list[torch.Tensor], expected: torch.Tensor) -> str:
    out = torch.zeros_like(expected)
    try:
        kernel[(1,)](*inputs, out, N=N)  # type: ignore[index]
    except Exception as error:  # each correction's absence shows in its own way
        return f"raised {type(error).__name__}: {error}"[:200]
    same = torch.allclose(out.float(), expected.float(), rtol=1e-5, atol=1e-5, equal_nan=True)
    exact = torch.equal(out.float().nan_to_num(nan=7.0), expected.float().nan_to_num(nan=7.0))
    return "right" if (exact or (expected.dtype == torch.float32 and same)) else "wrong"


def attempt(call: Callable[[], object]) -> str:
    try:
        call()
    except Exception as error:  # the text is what the test asserts
        return f"{error}"
    return "nothing raised"


def report() -> dict[str, object]:
    before = {name: outcome(*case) for name, case in cases().items()}
    interpreter.install()
    after = {name: outcome(*case) for name, case in cases().items()}
    ones = torch.ones(N, dtype=torch.bfloat16)
    atomic = attempt(lambda: atomic_kernel[(1,)](ones, ones, ones, ones.clone(), N=N))
    return {"kernel": "corrections", "before": before, "after": after, "atomic": atomic}
