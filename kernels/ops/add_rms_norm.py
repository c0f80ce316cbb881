"""Residual add and RMSNorm in one pass over memory, with two outputs: the normed sum and the sum.

    total  = x + residual                                                  (rounded to x's dtype)
    normed = total / sqrt(mean(total ** 2, over the last dim) + eps) * weight

Everything after `total` is computed in float32 (float64 for float64 inputs) and rounded once. Backward, with
n = total / sqrt(mean(total ** 2) + eps) and g = d_normed * weight:

    d_total = d_sum + (g - n * mean(g * n)) / sqrt(mean(total ** 2) + eps)
    d_x = d_residual = d_total;  d_weight = sum over rows of d_normed * n

Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019 (arXiv 1910.07467).
Not for: a sum that broadcasts, or a norm over more than the last dimension.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from kernels import norms
from kernels.add_norm import AddNorm
from kernels.spec import Match, Mismatch, register

tl: Any = None  # triton.language: `jit` sets it


def _kernel(  # type: ignore[no-untyped-def]
    x_ptr,
    residual_ptr,
    weight_ptr,
    normed_ptr,
    total_ptr,
    n_rows,
    width,
    eps,
    HAS_WEIGHT: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WHOLE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)  # int64: rows * width may pass 2**31
    row = row[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    eps = tl.cast(eps, tl.float32)  # a wrapper may pass the scalar as fp64, which would drag the row with it
    if WHOLE:
        mask = (row < n_rows) & (column < width)
        at = row * width + column
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        residual = tl.load(residual_ptr + at, mask=mask, other=0.0).to(tl.float32)
        rounded = (x + residual).to(total_ptr.dtype.element_ty)
        tl.store(total_ptr + at, rounded, mask=mask)
        total = rounded.to(tl.float32)
        scale = tl.rsqrt(tl.sum(total * total, axis=1) / width + eps)
        normed = total * scale[:, None]
        if HAS_WEIGHT:
            normed *= tl.load(weight_ptr + column, mask=column < width, other=0.0).to(tl.float32)
        tl.store(normed_ptr + at, normed.to(normed_ptr.dtype.element_ty), mask=mask)
    else:
        squares = tl.zeros((ROWS, COLUMNS), tl.float32)
        for first in range(0, width, COLUMNS):
            here = first + column
            mask = (row < n_rows) & (here < width)
            at = row * width + here
            x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
            residual = tl.load(residual_ptr + at, mask=mask, other=0.0).to(tl.float32)
            rounded = (x + residual).to(total_ptr.dtype.element_ty)
            tl.store(total_ptr + at, rounded, mask=mask)
            total = rounded.to(tl.float32)
            squares += total * total
        scale = tl.rsqrt(tl.sum(squares, axis=1) / width + eps)
        for first in range(0, width, COLUMNS):
            here = first + column
            mask = (row < n_rows) & (here < width)
            at = row * width + here
            # Added anew: reading total back would need a barrier between the threads that wrote it.
            x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
            residual = tl.load(residual_ptr + at, mask=mask, other=0.0).to(tl.float32)
            normed = (x + residual).to(total_ptr.dtype.element_ty).to(tl.float32) * scale[:, None]
            if HAS_WEIGHT:
                normed *= tl.load(weight_ptr + here, mask=here < width, other=0.0).to(tl.float32)
            tl.store(normed_ptr + at, normed.to(normed_ptr.dtype.element_ty), mask=mask)


@register
class AddRmsNorm(AddNorm):
    name = "add_rms_norm"
    schema = "(Tensor x, Tensor residual, Tensor? weight, float eps) -> (Tensor, Tensor)"
    triton = staticmethod(_kernel)
    spellings = norms.RMS_SPELLINGS
    parameters = ("weight",)
    centres = False
    usual_eps = 1e-6
    flops_per_element = 5  # the add, square and sum, scale, weight

    def reference(self, x: Tensor, residual: Tensor, weight: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
        total = x + residual
        wide = total.to(torch.promote_types(total.dtype, torch.float32))
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
        if weight is not None:
            normed = normed * weight.to(wide.dtype)
        return normed.to(total.dtype), total

    def unit_and_scale(self, total: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        scale = torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + eps)
        return total * scale, scale

    def match(self, anchor: Node) -> Match | Mismatch | None:
        return norms.with_add(norms.find_rms_norm(anchor))
