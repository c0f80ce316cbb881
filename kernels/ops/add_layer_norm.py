"""Residual add and LayerNorm in one pass over memory, with two outputs: the normed sum and the sum.

    total  = x + residual                                                  (rounded to x's dtype)
    normed = (total - mean) / sqrt(var + eps) * weight + bias     (mean, var over the last dim; var of the population)

Everything after `total` is computed in float32 (float64 for float64 inputs) and rounded once. The variance is that of
the centred row, never mean(total ** 2) - mean ** 2, which cancels; wide rows merge the tiles' moments as Chan, Golub
and LeVeque do. Backward, with n = (total - mean) / sqrt(var + eps) and g = d_normed * weight:

    d_total = d_sum + (g - mean(g) - n * mean(g * n)) / sqrt(var + eps)
    d_x = d_residual = d_total;  d_weight = sum over rows of d_normed * n;  d_bias = sum over rows of d_normed

Sources: Ba, Kiros and Hinton, "Layer Normalization", 2016 (arXiv 1607.06450); Chan, Golub and LeVeque, "Updating
Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979.
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
    bias_ptr,
    normed_ptr,
    total_ptr,
    n_rows,
    width,
    eps,
    HAS_WEIGHT: tl.constexpr,
    HAS_BIAS: tl.constexpr,
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
        mean = tl.sum(total, axis=1) / width
        centred = tl.where(column < width, total - mean[:, None], 0.0)
        scale = tl.rsqrt(tl.sum(centred * centred, axis=1) / width + eps)
        normed = centred * scale[:, None]
        if HAS_WEIGHT:
            normed *= tl.load(weight_ptr + column, mask=column < width, other=0.0).to(tl.float32)
        if HAS_BIAS:
            normed += tl.load(bias_ptr + column, mask=column < width, other=0.0).to(tl.float32)
        tl.store(normed_ptr + at, normed.to(normed_ptr.dtype.element_ty), mask=mask)
    else:
        mean = tl.zeros((ROWS,), tl.float32)
        squares = tl.zeros((ROWS,), tl.float32)
        for first in range(0, width, COLUMNS):
            here = first + column
            mask = (row < n_rows) & (here < width)
            at = row * width + here
            x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
            residual = tl.load(residual_ptr + at, mask=mask, other=0.0).to(tl.float32)
            rounded = (x + residual).to(total_ptr.dtype.element_ty)
            tl.store(total_ptr + at, rounded, mask=mask)
            total = rounded.to(tl.float32)
            seen = tl.cast(first, tl.float32)
            fresh = tl.cast(tl.minimum(width - first, COLUMNS), tl.float32)
            tile_mean = tl.sum(total, axis=1) / fresh
            centred = tl.where(here < width, total - tile_mean[:, None], 0.0)
            shift = tile_mean - mean
            share = fresh / (seen + fresh)
            mean += shift * share
            squares += tl.sum(centred * centred, axis=1) + shift * shift * seen * share
        scale = tl.rsqrt(squares / width + eps)
        for first in range(0, width, COLUMNS):
            here = first + column
            mask = (row < n_rows) & (here < width)
            at = row * width + here
            # Added anew: reading total back would need a barrier between the threads that wrote it.
            x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
            residual = tl.load(residual_ptr + at, mask=mask, other=0.0).to(tl.float32)
            total = (x + residual).to(total_ptr.dtype.element_ty).to(tl.float32)
            normed = (total - mean[:, None]) * scale[:, None]
            if HAS_WEIGHT:
                normed *= tl.load(weight_ptr + here, mask=here < width, other=0.0).to(tl.float32)
            if HAS_BIAS:
                normed += tl.load(bias_ptr + here, mask=here < width, other=0.0).to(tl.float32)
            tl.store(normed_ptr + at, normed.to(normed_ptr.dtype.element_ty), mask=mask)


@register
class AddLayerNorm(AddNorm):
    name = "add_layer_norm"
    schema = "(Tensor x, Tensor residual, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor)"
    triton = staticmethod(_kernel)
    spellings = norms.LAYER_SPELLINGS
    parameters = ("weight", "bias")
    centres = True
    usual_eps = 1e-5
    flops_per_element = 8  # the add, mean, centre, square and sum, scale, weight, bias

    def reference(
        self, x: Tensor, residual: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> tuple[Tensor, Tensor]:
        total = x + residual
        wide = total.to(torch.promote_types(total.dtype, torch.float32))
        weight, bias = (None if p is None else p.to(wide.dtype) for p in (weight, bias))
        normed = torch.nn.functional.layer_norm(wide, (wide.shape[-1],), weight, bias, eps)
        return normed.to(total.dtype), total

    def unit_and_scale(self, total: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        variance, mean = torch.var_mean(total, -1, correction=0, keepdim=True)
        scale = torch.rsqrt(variance + eps)
        return (total - mean) * scale, scale

    def match(self, anchor: Node) -> Match | Mismatch | None:
        return norms.with_add(norms.find_layer_norm(anchor))
