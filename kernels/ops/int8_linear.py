"""A linear layer whose weights lie in memory as int8 with one scale per output: dequantised inside the product.

    out = (x @ weight.T) * scale + bias,  weight int8 [out, in], scale one float per output

The product is accumulated in float32 and scaled before anything is stored.

Source: Dettmers et al., "LLM.int8(): 8-bit Matrix Multiplication for Transformers at Scale", 2022 (arXiv 2208.07339),
the weight-only case.
Not for: scales per group of inputs, zero points, or activations in int8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels import products, rows
from kernels.inputs import integers, meta, normal
from kernels.patterns import (
    CASTS,
    Found,
    Pattern,
    add,
    anything,
    aten,
    call,
    either,
    mul,
    optional,
    shared,
    tensor,
    value,
)
from kernels.spec import Configuration, Cost, Kernel, Launch, Sample, ceil_div, configuration, register, same_size
from kernels.spellings import linear, weight_of

tl: Any = None  # triton.language: `jit` sets it

# Products of float32 run on vector units, and the int8 weights are widened beside them: flatter than other products'.
IN_FLOAT32 = (
    configuration(num_warps=4, num_stages=3, BLOCK_M=64, BLOCK_N=64, BLOCK_K=16),
    configuration(num_warps=4, num_stages=3, BLOCK_M=32, BLOCK_N=64, BLOCK_K=16),
    configuration(num_warps=4, num_stages=4, BLOCK_M=16, BLOCK_N=64, BLOCK_K=32),
)


def _kernel(  # type: ignore[no-untyped-def]
    x_ptr,
    weight_ptr,
    scale_ptr,
    bias_ptr,
    out_ptr,
    n_rows,
    outputs,
    inputs,
    HAS_BIAS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]  # int64: may pass 2**31
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    k = tl.arange(0, BLOCK_K)
    product = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, inputs, BLOCK_K):
        along = first + k
        x = tl.load(x_ptr + row * inputs + along[None, :], mask=(row < n_rows) & (along < inputs)[None, :], other=0.0)
        there = weight_ptr + column.to(tl.int64) * inputs + along[:, None]
        weight = tl.load(there, mask=(column < outputs) & (along < inputs)[:, None], other=0)
        # every int8 is exact in float16 and bfloat16; ieee: not TF32, float32 is held to float32's error
        product = tl.dot(x, weight.to(x.dtype), product, input_precision="ieee")
    product *= tl.load(scale_ptr + column, mask=column < outputs, other=0.0).to(tl.float32)
    if HAS_BIAS:
        product += tl.load(bias_ptr + column, mask=column < outputs, other=0.0).to(tl.float32)
    mask = (row < n_rows) & (column < outputs)
    tl.store(out_ptr + row * outputs + column, product.to(out_ptr.dtype.element_ty), mask=mask)


def _widened(name: str) -> Pattern:
    return call(CASTS, tensor(name), anything())


_WEIGHT = _widened("weight")
_SCALE = either(shared(call(aten.unsqueeze.default, tensor("scale"), anything("new"))), tensor("scale"))


@register
class Int8Linear(Kernel):
    name = "int8_linear"
    schema = "(Tensor x, Tensor weight, Tensor scale, Tensor? bias) -> Tensor"
    tolerances = products.TOLERANCES
    breadth = 4
    patterns: ClassVar[dict[str, Any]] = {
        "linear(x, weight.to(dtype) * scale)": call(
            aten.linear.default, tensor("x"), mul(_WEIGHT, _SCALE), bias=optional("bias")
        ),
        "linear(x, weight.to(dtype)) * scale": either(
            add(mul(linear(tensor("x"), _widened), tensor("behind")), tensor("added")),
            mul(linear(tensor("x"), _widened), tensor("behind")),
        ),
    }

    def arguments(self, found: Found) -> tuple[Any, ...] | str:
        if "behind" in found.values:
            if found.get("bias") is not None:
                return "the bias is scaled too"
            if value(found["behind"]).dim() != 1:
                return "the scale is not one value per output"
            return found["x"], weight_of(found), found["behind"], found.get("added")
        scale = value(found["scale"])
        if scale.dim() == 1 and found.get("new") not in (1, -1):
            return "the scale is one per input, not one per output"
        return found["x"], found["weight"], found["scale"], found["bias"]

    def reference(self, x: Tensor, weight: Tensor, scale: Tensor, bias: Tensor | None) -> Tensor:
        product = F.linear(x, weight.to(x.dtype)) * scale.reshape(-1)
        return (product if bias is None else product + bias).to(x.dtype)

    def fake(self, x: Tensor, weight: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        return (torch.empty((*x.shape[:-1], weight.shape[0]), dtype=x.dtype, device=x.device),)

    def configurations(self, x: Tensor, *rest: Any) -> tuple[Configuration, ...]:
        return IN_FLOAT32 if x.dtype == torch.float32 else products.configurations()

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        x, weight, scale, bias = args
        n_out, n_in = weight.shape
        n_rows = outputs[0].numel() // max(n_out, 1)
        if not outputs[0].numel():
            return []
        x, weight, scale = x.contiguous(), weight.contiguous(), scale.contiguous()
        given = (x, weight, scale, scale if bias is None else bias.contiguous(), *outputs, n_rows, n_out, n_in)
        constants = {"HAS_BIAS": bias is not None, **configuration.constants}
        grid = (ceil_div(n_rows, configuration["BLOCK_M"]), ceil_div(n_out, configuration["BLOCK_N"]))
        return [Launch(_kernel, grid, given, constants, configuration.num_warps, configuration.num_stages)]

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        def layer(n_out: int, n_in: int) -> tuple[Tensor, ...]:
            weight = (integers(n_out, n_in, below=256) - 128).to(torch.int8)
            return weight, (normal(n_out, dtype=dtype, seed=1).abs() / 128 / n_in**0.5).to(dtype)

        return [
            Sample("5x23 to 7", (normal(5, 23, dtype=dtype), *layer(7, 23), normal(7, dtype=dtype))),
            Sample("2x3x40 to 70 without bias", (normal(2, 3, 40, dtype=dtype), *layer(70, 40), None)),
            Sample("70x130 to 33", (normal(70, 130, dtype=dtype), *layer(33, 130), normal(33, dtype=dtype))),
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        x = normal(3, 6, dtype=dtype)
        ends = torch.tensor([[-128, 127, 0, 1, -1, 5]] * 4, dtype=torch.int8)
        scale = torch.full((4,), 1 / 128).to(dtype)
        return [
            Sample("the ends of int8", (x, ends, scale, None)),
            Sample("scales of zero", (x, ends, scale * 0, None)),
            Sample("scales in a column", (x, ends, scale.unsqueeze(1), None)),
            Sample("a transposed weight", (x, ends.T.contiguous().T, scale, None)),
            Sample("no rows", (x[:0], ends, scale, None)),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        weight, scale = meta(4096, 4096, dtype=torch.int8), meta(4096, dtype=dtype)
        return Sample("64x4096 to 4096", (meta(64, 4096, dtype=dtype), weight, scale, None))

    def check(self, x: Tensor, weight: Tensor, scale: Tensor, bias: Tensor | None) -> str | None:
        if x.dtype not in rows.FLOATS or scale.dtype != x.dtype:
            return f"x is {x.dtype}, the scale {scale.dtype}: not one float dtype"
        if weight.dtype != torch.int8:
            return f"the weight is {weight.dtype}, not int8"
        if x.dim() < 1 or weight.dim() != 2 or not same_size(weight.shape[1], x.shape[-1]):
            return f"a weight {tuple(weight.shape)} does not fit an input {tuple(x.shape)}"
        column = scale.dim() == 1 or (scale.dim() == 2 and same_size(scale.shape[1], 1))
        if not column or not same_size(scale.shape[0], weight.shape[0]):
            return f"the scale {tuple(scale.shape)} is not one value per output"
        of_outputs = bias is None or (bias.dim() == 1 and same_size(bias.shape[0], weight.shape[0]))
        if bias is not None and not (bias.dtype == x.dtype and of_outputs):
            return "the bias is not one value per output in x's dtype"
        return None

    def cost(self, x: Tensor, weight: Tensor, scale: Tensor, bias: Tensor | None) -> Cost:
        n_out, n_in = weight.shape
        n_rows = x.numel() // n_in
        vector = 0 if bias is None else bias.numel()
        moved = (x.numel() + n_rows * n_out + scale.numel() + vector) * x.element_size() + weight.numel()
        return Cost(bytes=moved, flops=2 * n_rows * n_out * n_in)
