"""RMSNorm in one pass over memory.

    normed = x / sqrt(mean(x ** 2, over the last dim) + eps) * weight

Computed in float32 (float64 for float64 inputs) and rounded once. Backward, with n = x / sqrt(mean(x ** 2) + eps) and
g = d_normed * weight:

    d_x = (g - n * mean(g * n)) / sqrt(mean(x ** 2) + eps);  d_weight = sum over rows of d_normed * n

Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019 (arXiv 1910.07467).
Not for: a norm over more than the last dimension, or a weight that is added to one (Gemma's: add it beforehand).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from kernels import norms, rows
from kernels.inputs import meta
from kernels.spec import Configuration, Cost, Kernel, Launch, Match, Mismatch, Sample, register

tl: Any = None  # triton.language: `jit` sets it


def _kernel(  # type: ignore[no-untyped-def]
    x_ptr,
    weight_ptr,
    normed_ptr,
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
        x = tl.load(x_ptr + row * width + column, mask=mask, other=0.0).to(tl.float32)
        normed = x * tl.rsqrt(tl.sum(x * x, axis=1) / width + eps)[:, None]
        if HAS_WEIGHT:
            normed *= tl.load(weight_ptr + column, mask=column < width, other=0.0).to(tl.float32)
        tl.store(normed_ptr + row * width + column, normed.to(normed_ptr.dtype.element_ty), mask=mask)
    else:
        squares = tl.zeros((ROWS, COLUMNS), tl.float32)
        for first in range(0, width, COLUMNS):
            here = first + column
            mask = (row < n_rows) & (here < width)
            x = tl.load(x_ptr + row * width + here, mask=mask, other=0.0).to(tl.float32)
            squares += x * x
        scale = tl.rsqrt(tl.sum(squares, axis=1) / width + eps)[:, None]
        for first in range(0, width, COLUMNS):
            here = first + column
            mask = (row < n_rows) & (here < width)
            normed = tl.load(x_ptr + row * width + here, mask=mask, other=0.0).to(tl.float32) * scale
            if HAS_WEIGHT:
                normed *= tl.load(weight_ptr + here, mask=here < width, other=0.0).to(tl.float32)
            tl.store(normed_ptr + row * width + here, normed.to(normed_ptr.dtype.element_ty), mask=mask)


@register
class RmsNorm(Kernel):
    name = "rms_norm"
    schema = "(Tensor x, Tensor? weight, float eps) -> Tensor"
    tolerances = rows.TOLERANCES
    spellings = norms.RMS_SPELLINGS
    breadth = 2

    def reference(self, x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
        return (normed if weight is None else normed * weight.to(wide.dtype)).to(x.dtype)

    def fake(self, x: Tensor, weight: Tensor | None, eps: float) -> tuple[Tensor, ...]:
        return (torch.empty(x.shape, dtype=x.dtype, device=x.device),)

    def configurations(self, x: Tensor, *rest: Any) -> tuple[Configuration, ...]:
        return rows.configurations(x.shape[-1])

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        x, weight, eps = args
        n_rows, width = rows.rows_of(x)
        x = x.contiguous()
        weight_or_any = x if weight is None else weight.contiguous()
        given = (x, weight_or_any, *outputs, n_rows, width, eps)
        return rows.launches(_kernel, given, n_rows, width, configuration, HAS_WEIGHT=weight is not None)

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        return norms.samples(dtype, parameters=1, eps=1e-6, inputs=1)

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        return norms.edges(dtype, parameters=1, eps=1e-6, inputs=1)

    def typical(self, dtype: torch.dtype) -> Sample:
        return Sample("8192x4096", (meta(8192, 4096, dtype=dtype), meta(4096, dtype=dtype), 1e-6))

    def check(self, x: Tensor, weight: Tensor | None, eps: float) -> str | None:
        return rows.why_not_row(x, {"weight": weight})

    def cost(self, x: Tensor, weight: Tensor | None, eps: float) -> Cost:
        moved = 0 if weight is None else weight.numel() * weight.element_size()
        return Cost(bytes=2 * x.numel() * x.element_size() + moved, flops=4 * x.numel())

    def match(self, anchor: Node) -> Match | Mismatch | None:
        return norms.alone(norms.find_rms_norm(anchor))
