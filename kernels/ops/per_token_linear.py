"""A linear layer of its own for each token (grouped GEMM), with GELU behind it or not, in one launch.

    out[b, t] = act(x[b, t] @ weight[t] + bias[t]),  act = none or gelu (by erf)

Accumulated in float32; bias and activation are applied before anything is stored.

Source: Zhu et al., "RankMixer: Scaling Up Ranking Models in Industrial Recommenders", 2025 (arXiv 2507.15551), the
per-token feed-forward network.
Not for: groups of different sizes, or one weight for all tokens (a plain linear layer).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels import products, rows
from kernels.inputs import meta, normal
from kernels.patterns import Found, Pattern, add, aten, call, either, flat, shared, tensor
from kernels.spec import Configuration, Cost, Kernel, Launch, Sample, ceil_div, register, same_size
from kernels.spellings import einsum, swapped

tl: Any = None  # triton.language: `jit` sets it

ACTIVATIONS = ("none", "gelu")


def _kernel(  # type: ignore[no-untyped-def]
    x_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    batch,
    tokens,
    inputs,
    outputs,
    HAS_BIAS: tl.constexpr,
    ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    token = tl.program_id(2).to(tl.int64)  # int64: an offset may pass 2**31
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    k = tl.arange(0, BLOCK_K)
    product = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, inputs, BLOCK_K):
        along = first + k
        here = x_ptr + (row * tokens + token) * inputs + along[None, :]
        x = tl.load(here, mask=(row < batch) & (along < inputs)[None, :], other=0.0)
        there = weight_ptr + (token * inputs + along[:, None]) * outputs + column
        weight = tl.load(there, mask=(column < outputs) & (along < inputs)[:, None], other=0.0)
        product = tl.dot(x, weight, product, input_precision="ieee")  # not TF32: float32 is held to float32's error
    if HAS_BIAS:
        product += tl.load(bias_ptr + token * outputs + column, mask=column < outputs, other=0.0).to(tl.float32)
    if ACTIVATION == 1:
        product = 0.5 * product * (1.0 + tl.erf(product * 0.7071067811865476))
    mask = (row < batch) & (column < outputs)
    at = out_ptr + (row * tokens + token) * outputs + column
    tl.store(at, product.to(out_ptr.dtype.element_ty), mask=mask)


_PRODUCT = either(
    einsum("btd,tdh->bth", tensor("x"), tensor("weight")),
    swapped(call(aten.bmm.default, swapped(tensor("x"), 0, 1, 3), tensor("weight")), 0, 1, 3),
    call(
        aten.squeeze.dim,
        call(aten.matmul.default, shared(call(aten.unsqueeze.default, tensor("x"), 2)), tensor("weight")),
        2,
    ),
)
_BIAS: Pattern = either(shared(call(aten.unsqueeze.default, tensor("bias"), 0)), tensor("bias"))
_WITH_BIAS: Pattern = either(add(_PRODUCT, _BIAS), _PRODUCT)


@register
class PerTokenLinear(Kernel):
    name = "per_token_linear"
    schema = "(Tensor x, Tensor weight, Tensor? bias, str activation) -> Tensor"
    tolerances = products.TOLERANCES
    breadth = 3
    patterns: ClassVar[dict[str, Any]] = {
        "gelu(einsum('btd,tdh->bth', x, weight) + bias)": call(aten.gelu.default, _WITH_BIAS),
        "einsum('btd,tdh->bth', x, weight) + bias, or as a bmm or a matmul": add(_PRODUCT, _BIAS),
    }

    def arguments(self, found: Found) -> tuple[Any, ...] | str:
        activated = any(node.target is aten.gelu.default for node in found.inside)
        bias = found.get("bias")
        return found["x"], found["weight"], None if bias is None else flat(bias, 2), "gelu" if activated else "none"

    def reference(self, x: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> Tensor:
        found = torch.einsum("btd,tdh->bth", x, weight)
        if bias is not None:
            found = found + bias
        return F.gelu(found) if activation == "gelu" else found

    def fake(self, x: Tensor, weight: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        return (torch.empty((x.shape[0], x.shape[1], weight.shape[2]), dtype=x.dtype, device=x.device),)

    def configurations(self, *args: Any) -> tuple[Configuration, ...]:
        return products.configurations()

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        x, weight, bias, activation = args
        batch, tokens, n_in = x.shape
        n_out = weight.shape[2]
        if not outputs[0].numel():
            return []
        x, weight = x.contiguous(), weight.contiguous()
        given = (x, weight, x if bias is None else bias.contiguous(), *outputs, batch, tokens, n_in, n_out)
        constants = {"HAS_BIAS": bias is not None, "ACTIVATION": ACTIVATIONS.index(activation)}
        constants.update(configuration.constants)
        grid = (ceil_div(batch, configuration["BLOCK_M"]), ceil_div(n_out, configuration["BLOCK_N"]), tokens)
        return [Launch(_kernel, grid, given, constants, configuration.num_warps, configuration.num_stages)]

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        def layer(tokens: int, n_in: int, n_out: int) -> tuple[Tensor, ...]:
            weight = normal(tokens, n_in, n_out, dtype=dtype, seed=1, scale=n_in**-0.5)
            return weight, normal(tokens, n_out, dtype=dtype, seed=2)

        return [
            Sample("5x3x23 to 7, gelu", (normal(5, 3, 23, dtype=dtype), *layer(3, 23, 7), "gelu")),
            Sample("70x2x40 to 70", (normal(70, 2, 40, dtype=dtype), *layer(2, 40, 70), "none")),
            Sample("3x1x16 without bias", (normal(3, 1, 16, dtype=dtype), layer(1, 16, 16)[0], None, "none")),
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        x, weight = normal(2, 3, 4, dtype=dtype), normal(3, 4, 5, dtype=dtype)
        return [
            Sample("zeros", (torch.zeros_like(x), weight, None, "gelu")),
            Sample("large", (x * 100, weight, None, "gelu")),
            Sample("transposed", (normal(3, 2, 4, dtype=dtype).transpose(0, 1), weight, None, "none")),
            Sample("nothing", (x[:0], weight, None, "none")),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        weight, bias = meta(32, 768, 3072, dtype=dtype), meta(32, 3072, dtype=dtype)
        return Sample("1024x32x768 to 3072, gelu", (meta(1024, 32, 768, dtype=dtype), weight, bias, "gelu"))

    def check(self, x: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> str | None:
        if activation not in ACTIVATIONS:
            return f"there is no activation {activation!r} here"
        if x.dtype not in rows.FLOATS or weight.dtype != x.dtype:
            return f"x is {x.dtype}, the weight {weight.dtype}: not one float dtype"
        if x.dim() != 3 or weight.dim() != 3:
            return "x or the weight does not have three dimensions"
        if not (same_size(x.shape[1], weight.shape[0]) and same_size(x.shape[2], weight.shape[1])):
            return f"a weight {tuple(weight.shape)} does not fit x {tuple(x.shape)}"
        if bias is None:
            return None
        if bias.dtype != x.dtype or bias.dim() != 2:
            return f"the bias is {bias.dtype} of {bias.dim()} dimensions, not one vector for each token"
        fits = same_size(bias.shape[0], weight.shape[0]) and same_size(bias.shape[1], weight.shape[2])
        return None if fits else f"the bias {tuple(bias.shape)} is not one vector for each token"

    def cost(self, x: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> Cost:
        written = x.shape[0] * x.shape[1] * weight.shape[2]
        moved = x.numel() + weight.numel() + written + (0 if bias is None else bias.numel())
        flops = 2 * written * x.shape[2] + (8 * written if activation == "gelu" else 0)
        return Cost(bytes=moved * x.element_size(), flops=flops)
