"""The cross layer of DCN-v2 as one matrix product with its epilogue.

    out = x0 * (x @ weight.T + bias) + x

The product is accumulated in float32 and the epilogue applied before anything is stored.

Source: Wang et al., "DCN V2: Improved Deep & Cross Network", 2021 (arXiv 2008.13535), equation 1.
Not for: the low-rank form (two products), or an x0 that broadcasts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels import products
from kernels.inputs import meta, normal
from kernels.patterns import Found, add, aten, call, either, mul, tensor
from kernels.spec import Configuration, Cost, Kernel, Launch, Sample, ceil_div, register, same_shape
from kernels.spellings import linear, weight_of

tl: Any = None  # triton.language: `jit` sets it


def _kernel(  # type: ignore[no-untyped-def]
    x0_ptr,
    x_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    n_rows,
    width,
    HAS_BIAS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]  # int64: may pass 2**31
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    k = tl.arange(0, BLOCK_K)
    product = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, width, BLOCK_K):
        along = first + k
        x = tl.load(x_ptr + row * width + along[None, :], mask=(row < n_rows) & (along < width)[None, :], other=0.0)
        there = weight_ptr + column * width + along[:, None]
        weight = tl.load(there, mask=(column < width) & (along < width)[:, None], other=0.0)
        product = tl.dot(x, weight, product, input_precision="ieee")  # not TF32: float32 is held to float32's error
    mask = (row < n_rows) & (column < width)
    if HAS_BIAS:
        product += tl.load(bias_ptr + column, mask=column < width, other=0.0).to(tl.float32)
    x0 = tl.load(x0_ptr + row * width + column, mask=mask, other=0.0).to(tl.float32)
    x = tl.load(x_ptr + row * width + column, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * width + column, (x0 * product + x).to(out_ptr.dtype.element_ty), mask=mask)


@register
class CrossLayer(Kernel):
    name = "cross_layer"
    schema = "(Tensor x0, Tensor x, Tensor weight, Tensor? bias) -> Tensor"
    tolerances = products.TOLERANCES
    breadth = 3
    patterns: ClassVar[dict[str, Any]] = {
        "x0 * linear(x) + x": add(mul(tensor("x0"), linear(tensor("x"))), tensor("x")),
        "addcmul(x, x0, linear(x))": either(
            call(aten.addcmul.default, tensor("x"), tensor("x0"), linear(tensor("x"))),
            call(aten.addcmul.default, tensor("x"), linear(tensor("x")), tensor("x0")),
        ),
    }

    def arguments(self, found: Found) -> tuple[Any, ...] | str:
        return found["x0"], found["x"], weight_of(found), found.get("bias")

    def reference(self, x0: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return x0 * F.linear(x, weight, bias) + x

    def fake(self, x0: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        return (torch.empty(x0.shape, dtype=x0.dtype, device=x0.device),)

    def configurations(self, *args: Any) -> tuple[Configuration, ...]:
        return products.configurations()

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        x0, x, weight, bias = args
        width = x.shape[-1]
        n_rows = x.numel() // max(width, 1)
        if not x.numel():
            return []
        x0, x, weight = x0.contiguous(), x.contiguous(), weight.contiguous()
        given = (x0, x, weight, x if bias is None else bias.contiguous(), *outputs, n_rows, width)
        constants = {"HAS_BIAS": bias is not None, **configuration.constants}
        grid = (ceil_div(n_rows, configuration["BLOCK_M"]), ceil_div(width, configuration["BLOCK_N"]))
        return [Launch(_kernel, grid, given, constants, configuration.num_warps, configuration.num_stages)]

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        def layer(*shape: int) -> tuple[Tensor, ...]:
            width = shape[-1]
            x0, x = (normal(*shape, dtype=dtype, seed=s) for s in (0, 1))
            return x0, x, normal(width, width, dtype=dtype, seed=2, scale=width**-0.5), normal(width, dtype=dtype)

        return [
            Sample("5x23", layer(5, 23)),
            Sample("70x80 without bias", (*layer(70, 80)[:3], None)),
            Sample("2x3x16", layer(2, 3, 16)),
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        x, weight, bias = normal(3, 7, dtype=dtype), normal(7, 7, dtype=dtype), normal(7, dtype=dtype)
        return [
            Sample("zeros", (torch.zeros_like(x), x, weight, bias)),
            Sample("a transposed weight", (x, x, weight.T, bias)),
            Sample("one of one", (x[:1, :1].clone(), x[:1, :1].clone(), weight[:1, :1].clone(), bias[:1].clone())),
            Sample("no rows", (x[:0], x[:0], weight, bias)),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        x = meta(8192, 1024, dtype=dtype)
        return Sample("8192x1024", (x, x, meta(1024, 1024, dtype=dtype), meta(1024, dtype=dtype)))

    def check(self, x0: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> str | None:
        if x0.dtype != x.dtype or not same_shape(x0, x):
            return f"x0 is {x0.dtype} {tuple(x0.shape)}, x is {x.dtype} {tuple(x.shape)}"
        return products.why_not_linear(x, weight, bias)

    def cost(self, x0: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> Cost:
        vector = 0 if bias is None else bias.numel()
        moved = 3 * x.numel() + weight.numel() + vector
        return Cost(bytes=moved * x.element_size(), flops=(2 * weight.shape[0] + 3) * x.numel())
