"""HSTU's attention: a pointwise SiLU in place of the softmax, without the matrix of scores in memory.

    weights = silu(q @ k.T * scale + bias) / divisor * mask;  out = weights @ v

q, k and v are [batch, steps, heads, width]; bias (of positions and times) broadcasts over heads, mask over batch and
heads. Scores are float32; the weights are rounded to v's dtype before the last product.

Source: Zhai et al., "Actions Speak Louder than Words: Trillion-Parameter Sequential Transducers for Generative
Recommendations", 2024 (arXiv 2402.17152).
Not for: sequences laid end to end, or heads wider than 256. The bias is read, not computed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels import products, rows
from kernels.inputs import meta, normal
from kernels.patterns import Found, Pattern, add, aten, call, either, mul, number, shared, tensor
from kernels.spec import (
    Configuration,
    Cost,
    Kernel,
    Launch,
    Sample,
    ceil_div,
    configuration,
    power_of_two,
    register,
    same_size,
)
from kernels.spellings import einsum, silu, swapped

tl: Any = None  # triton.language: `jit` sets it

WIDEST = 256


def _kernel(  # type: ignore[no-untyped-def]
    q_ptr,
    k_ptr,
    v_ptr,
    bias_ptr,
    mask_ptr,
    out_ptr,
    length,
    heads,
    width,
    v_width,
    scale,
    divisor,
    q_batch,
    q_step,
    q_head,
    k_batch,
    k_step,
    k_head,
    v_batch,
    v_step,
    v_head,
    bias_batch,
    bias_head,
    bias_row,
    bias_key,
    mask_batch,
    mask_head,
    mask_row,
    mask_key,
    HAS_BIAS: tl.constexpr,
    HAS_MASK: tl.constexpr,
    WIDTH: tl.constexpr,
    V_WIDTH: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    pair = tl.program_id(1).to(tl.int64)  # int64: an offset may pass 2**31
    batch, head = pair // heads, pair % heads
    scale, divisor = tl.cast(scale, tl.float32), tl.cast(divisor, tl.float32)  # a wrapper may pass them as fp64
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, WIDTH)
    d_out = tl.arange(0, V_WIDTH)
    here = (row < length)[:, None] & (d < width)[None, :]
    q = tl.load(q_ptr + batch * q_batch + head * q_head + row[:, None] * q_step + d[None, :], mask=here, other=0.0)
    found = tl.zeros((BLOCK_M, V_WIDTH), tl.float32)
    for first in range(0, length, BLOCK_N):
        key = first + tl.arange(0, BLOCK_N)
        there = (key < length)[None, :] & (d < width)[:, None]
        of_key = k_ptr + batch * k_batch + head * k_head
        k = tl.load(of_key + key[None, :] * k_step + d[:, None], mask=there, other=0.0)
        scores = tl.dot(q, k, input_precision="ieee") * scale  # not TF32: float32 is held to float32's error
        both = (row < length)[:, None] & (key < length)[None, :]
        if HAS_BIAS:
            at = bias_ptr + batch * bias_batch + head * bias_head + row[:, None] * bias_row + key[None, :] * bias_key
            scores += tl.load(at, mask=both, other=0.0).to(tl.float32)
        weights = scores * tl.sigmoid(scores) / divisor
        if HAS_MASK:
            at = mask_ptr + batch * mask_batch + head * mask_head + row[:, None] * mask_row + key[None, :] * mask_key
            weights *= tl.load(at, mask=both, other=0.0).to(tl.float32)
        there = (key < length)[:, None] & (d_out < v_width)[None, :]
        of_value = v_ptr + batch * v_batch + head * v_head
        v = tl.load(of_value + key[:, None] * v_step + d_out[None, :], mask=there, other=0.0)
        weights = tl.where(both, weights, 0.0)
        found += tl.dot(weights.to(v.dtype), v, input_precision="ieee")
    at = ((batch * length + row[:, None]) * heads + head) * v_width + d_out[None, :]
    mask = (row < length)[:, None] & (d_out < v_width)[None, :]
    tl.store(out_ptr + at, found.to(out_ptr.dtype.element_ty), mask=mask)


_STEPS_FIRST = einsum("bnhd,bmhd->bhnm", tensor("q"), tensor("k"))
_HEADS_FIRST = call(
    aten.matmul.default,
    swapped(tensor("q"), 1, 2, 4),
    either(
        swapped(swapped(tensor("k"), 1, 2, 4), 2, 3, 4), shared(call(aten.permute.default, tensor("k"), [0, 2, 3, 1]))
    ),
)
_BIAS = either(shared(call(aten.unsqueeze.default, tensor("bias"), 1)), tensor("bias"))


def _weights(product: Pattern) -> Pattern:
    scaled = either(mul(product, number("scale")), call(aten.div.Tensor, product, number("over")), product)
    opened = silu(either(add(scaled, _BIAS), scaled))
    divided = either(
        call(aten.div.Tensor, opened, number("divisor")),
        call(aten.div.Scalar, opened, number("divisor")),
        mul(opened, number("share")),
    )
    return either(
        mul(divided, tensor("mask")),
        call(aten.div.Tensor, mul(opened, tensor("mask")), number("divisor")),
        mul(mul(opened, tensor("mask")), number("share")),
        divided,
    )


@register
class HstuAttention(Kernel):
    name = "hstu_attention"
    schema = "(Tensor q, Tensor k, Tensor v, Tensor? bias, Tensor? mask, float scale, float divisor) -> Tensor"
    tolerances = products.TOLERANCES
    breadth = 6
    patterns: ClassVar[dict[str, Any]] = {
        "einsum(silu(einsum(q, k) * scale + bias) / n * mask, v)": einsum(
            "bhnm,bmhd->bnhd", _weights(_STEPS_FIRST), tensor("v")
        ),
        "matmul(silu(matmul(q, k.T) * scale + bias) / n * mask, v), heads in front of steps": swapped(
            call(aten.matmul.default, _weights(_HEADS_FIRST), swapped(tensor("v"), 1, 2, 4)), 1, 2, 4
        ),
    }

    def arguments(self, found: Found) -> tuple[Any, ...] | str:
        if 0 in (found.get("over", 1), found.get("share", 1)):
            return "the weights are multiplied by zero, or the scores divided by it"
        scale = float(found.get("scale", 1.0)) / float(found.get("over", 1.0))
        divisor = float(found["divisor"]) if "divisor" in found.values else 1.0 / float(found["share"])
        return found["q"], found["k"], found["v"], found.get("bias"), found.get("mask"), scale, divisor

    def reference(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor | None,
        mask: Tensor | None,
        scale: float,
        divisor: float,
    ) -> Tensor:
        scores = torch.einsum("bnhd,bmhd->bhnm", q, k)
        if scale != 1.0:
            scores = scores * scale
        if bias is not None:
            scores = scores + (bias.unsqueeze(1) if bias.dim() == 3 else bias)
        weights = F.silu(scores) / divisor
        if mask is not None:
            weights = weights * mask
        return torch.einsum("bhnm,bmhd->bnhd", weights, v)

    def fake(self, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        return (torch.empty((*q.shape[:-1], v.shape[-1]), dtype=q.dtype, device=q.device),)

    def configurations(self, q: Tensor, *rest: Any) -> tuple[Configuration, ...]:
        small = configuration(num_warps=4, num_stages=2, BLOCK_M=32, BLOCK_N=32)
        if q.dtype == torch.float32:  # its products run on vector units: larger tiles pass all registers
            return (small, configuration(num_warps=4, num_stages=2, BLOCK_M=16, BLOCK_N=32))
        return (configuration(num_warps=4, num_stages=2, BLOCK_M=64, BLOCK_N=64), small)

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        q, k, v, bias, mask, scale, divisor = args
        batch, length, heads, width = q.shape
        v_width = v.shape[3]
        if not outputs[0].numel():
            return []
        q, k, v = (t if t.stride(-1) == 1 else t.contiguous() for t in (q, k, v))
        if bias is not None and bias.dim() == 3:
            bias = bias.unsqueeze(1)
        if mask is not None and mask.dtype == torch.bool:
            mask = mask.to(torch.int8)
        square = (batch, heads, length, length)
        beside = [None if t is None else t.expand(square) for t in (bias, mask)]
        strides = [s for t in beside for s in ((0, 0, 0, 0) if t is None else t.stride())]
        steps = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *strides)
        given = [q if t is None else t for t in beside]
        sizes = (length, heads, width, v_width, scale, divisor)
        constants: dict[str, int] = {"HAS_BIAS": bias is not None, "HAS_MASK": mask is not None}
        constants |= {"WIDTH": power_of_two(width, 16), "V_WIDTH": power_of_two(v_width, 16), **configuration.constants}
        grid = (ceil_div(length, configuration["BLOCK_M"]), batch * heads)
        options = (constants, configuration.num_warps, configuration.num_stages)
        return [Launch(_kernel, grid, (q, k, v, *given, *outputs, *sizes, *steps), *options)]

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        def three(batch: int, length: int, heads: int, width: int) -> list[Tensor]:
            return [normal(batch, length, heads, width, dtype=dtype, seed=s, scale=0.7) for s in range(3)]

        causal = torch.ones(7, 7).tril().to(dtype)
        bias = normal(2, 7, 7, dtype=dtype, seed=5)
        return [
            Sample("2x7x3x5", (*three(2, 7, 3, 5), bias, causal, 1.0, 7.0)),
            Sample("without bias and mask", (*three(1, 70, 1, 16), None, None, 0.25, 70.0)),
            Sample("a bias for each head", (*three(2, 5, 2, 8), normal(1, 2, 5, 5, dtype=dtype), None, 0.3, 2.0)),
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        q, k, v = (normal(1, 4, 2, 8, dtype=dtype, seed=s) for s in range(3))
        behind = normal(1, 2, 4, 8, dtype=dtype).transpose(1, 2)
        return [
            Sample("all hidden", (q, k, v, None, torch.zeros(4, 4).to(dtype), 1.0, 4.0)),
            Sample("a bool mask", (q, k, v, None, torch.ones(4, 4, dtype=torch.bool).tril(), 1.0, 4.0)),
            Sample("large", (q * 8, k * 8, v, None, None, 1.0, 100.0)),
            Sample("steps behind heads", (behind, behind, behind, None, None, 0.5, 4.0)),
            Sample("nothing", (q[:0], k[:0], v[:0], None, None, 1.0, 4.0)),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        q, bias, mask = meta(32, 512, 8, 64, dtype=dtype), meta(32, 512, 512, dtype=dtype), meta(512, 512, dtype=dtype)
        return Sample("32x512, 8 heads of 64", (q, q, q, bias, mask, 1.0, 512.0))

    def check(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor | None,
        mask: Tensor | None,
        scale: float,
        divisor: float,
    ) -> str | None:
        if q.dtype not in rows.FLOATS or not q.dtype == k.dtype == v.dtype:
            return f"q, k and v are {q.dtype}, {k.dtype} and {v.dtype}: not one float dtype"
        if not q.dim() == k.dim() == v.dim() == 4:
            return "q, k and v are not [batch, steps, heads, width]"
        if not all(same_size(a, b) for t in (k, v) for a, b in zip(q.shape[:3], t.shape[:3], strict=True)):
            return "q, k and v differ in batch, steps or heads"
        if not all(isinstance(t.shape[3], int) and t.shape[3] <= WIDEST for t in (q, v)) or q.shape[3] != k.shape[3]:
            return f"the width of a head is not fixed, or above {WIDEST}"
        square = (q.shape[0], q.shape[2], q.shape[1], q.shape[1])
        for name, beside in (("bias", bias), ("mask", mask)):
            if beside is None:
                continue
            shape = [*beside.shape]
            if name == "bias" and len(shape) == 3:
                shape.insert(1, 1)
            pairs = list(zip(reversed(shape), reversed(square), strict=False))
            if len(shape) > 4 or not all(same_size(a, b) or same_size(a, 1) for a, b in pairs):
                return f"the {name} {tuple(beside.shape)} does not broadcast over the scores"
            if beside.dtype != q.dtype and not (name == "mask" and beside.dtype == torch.bool):
                return f"the {name} has dtype {beside.dtype}, q {q.dtype}"
        return None

    def cost(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor | None,
        mask: Tensor | None,
        scale: float,
        divisor: float,
    ) -> Cost:
        batch, length, heads, width = q.shape
        moved = sum(t.numel() * t.element_size() for t in (q, k, v, bias, mask) if t is not None)
        moved += batch * length * heads * v.shape[3] * q.element_size()
        return Cost(bytes=moved, flops=batch * heads * length * length * (2 * width + 2 * v.shape[3] + 6))
