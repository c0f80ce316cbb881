"""Triton kernels whose compiled form a person can foretell: one that spills, one too large, one that copies."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def centre(x_ptr, y_ptr, BLOCK: tl.constexpr):
    """Every value of the row is needed again after the sum: with few threads they do not fit into registers."""
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, x - tl.sum(x, axis=0) / BLOCK)


@triton.jit
def product(a_ptr, b_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for first in range(0, K, BK):
        a = tl.load(a_ptr + m[:, None] * K + (first + k)[None, :])
        b = tl.load(b_ptr + (first + k)[:, None] * BN + n[None, :])
        total += tl.dot(a, b)
    tl.store(c_ptr + m[:, None] * BN + n[None, :], total)
