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

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from kernels import norms, rows
from kernels.spec import Cost, Kernel, Match, Mismatch, Sample, jit, register

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
class AddRmsNorm(Kernel):
    name = "add_rms_norm"
    schema = "(Tensor x, Tensor residual, Tensor? weight, float eps) -> (Tensor, Tensor)"
    tolerances = rows.TOLERANCES
    passes = ("fuse_add_norm",)

    def reference(self, x: Tensor, residual: Tensor, weight: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        total = x + residual
        wide = total.to(torch.promote_types(total.dtype, torch.float32))
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
        if weight is not None:
            normed = normed * weight.to(wide.dtype)
        return normed.to(total.dtype), total

    def launch_into(self, outputs: Sequence[Tensor], *args: Any) -> None:
        x, residual, weight, eps = args
        normed, total = outputs
        n_rows, width = rows.rows_of(x)
        if not n_rows:
            return
        tile = rows.tile(width)
        x, residual = x.contiguous(), residual.contiguous()
        weight = x if weight is None else weight.contiguous()
        jit(_kernel)[(-(-n_rows // tile.rows),)](
            x,
            residual,
            weight,
            normed,
            total,
            n_rows,
            width,
            eps,
            HAS_WEIGHT=args[2] is not None,
            ROWS=tile.rows,
            COLUMNS=tile.columns,
            WHOLE=tile.whole,
            num_warps=tile.warps,
        )

    def fake(self, *args: Any) -> tuple[Tensor, Tensor]:
        x = args[0]
        return torch.empty(x.shape, dtype=x.dtype, device=x.device), torch.empty(
            x.shape, dtype=x.dtype, device=x.device
        )

    def setup_context(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(output[1], inputs[2])
        ctx.eps = inputs[3]

    def backward(self, ctx: Any, *grads: Tensor | None) -> Any:
        total, weight = ctx.saved_tensors
        grad_normed, grad_total = grads
        wide = total.to(torch.promote_types(total.dtype, torch.float32))
        grad = torch.zeros_like(wide) if grad_total is None else grad_total.to(wide.dtype)
        grad_weight = None
        if grad_normed is not None:
            grad_normed = grad_normed.to(wide.dtype)
            scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + ctx.eps)
            unit = wide * scale
            inner = grad_normed if weight is None else grad_normed * weight.to(wide.dtype)
            grad = grad + scale * (inner - unit * (inner * unit).mean(-1, keepdim=True))
            if weight is not None:
                grad_weight = (grad_normed * unit).reshape(-1, unit.shape[-1]).sum(0).to(weight.dtype)
        grad = grad.to(total.dtype)
        return grad, grad, grad_weight, None

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        return norms.samples(dtype, parameters=1, eps=1e-6)

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        return norms.edges(dtype, parameters=1, eps=1e-6)

    def supports(self, *args: Any) -> str | None:
        x, residual, weight, _ = args
        return rows.why_not(x, residual, {"weight": weight})

    def cost(self, *args: Any) -> Cost:
        x, _, weight, _ = args
        parameters = 0 if weight is None else weight.numel() * weight.element_size()
        # Per element: the add, square and sum, scale, weight.
        return Cost(bytes=4 * x.numel() * x.element_size() + parameters, flops=5 * x.numel())

    def match(self, anchor: Node) -> Match | Mismatch | None:
        return norms.match_add_rms_norm(anchor)
