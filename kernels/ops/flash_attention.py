"""Scaled dot-product attention without the matrix of scores in memory.

    out = softmax(q @ k.T * scale + mask) @ v                      (heads of k and v may be shared: grouped queries)

causal hides key j from query i for j > i; a bool mask hides where it is false, a float mask is added. A query that
sees no key gives 0. Scores, maxima and sums are float32; the weights are rounded to v's dtype before the last product.

Sources: Dao et al., "FlashAttention", 2022 (arXiv 2205.14135); Ainslie et al., "GQA", 2023 (arXiv 2305.13245).
Not for: dropout, a mask together with causal, or heads wider than 256. The backward pass is torch's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels import products, rows
from kernels.inputs import coins, meta, normal
from kernels.patterns import Found, anything, aten, call, optional, tensor, value
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

tl: Any = None  # triton.language: `jit` sets it

WIDEST = 256


def _kernel(  # type: ignore[no-untyped-def]
    q_ptr,
    k_ptr,
    v_ptr,
    mask_ptr,
    out_ptr,
    length,
    keys,
    heads,
    group,
    width,
    v_width,
    scale,
    q_batch,
    q_head,
    q_step,
    k_batch,
    k_head,
    k_step,
    v_batch,
    v_head,
    v_step,
    mask_batch,
    mask_head,
    mask_step,
    mask_key,
    CAUSAL: tl.constexpr,
    MASK: tl.constexpr,
    WIDTH: tl.constexpr,
    V_WIDTH: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    block = tl.program_id(0)
    pair = tl.program_id(1).to(tl.int64)  # int64: an offset may pass 2**31
    batch, head = pair // heads, pair % heads
    scale = tl.cast(scale, tl.float32)  # a wrapper may pass the scalar as fp64
    row = block * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, WIDTH)
    d_out = tl.arange(0, V_WIDTH)
    here = (row < length)[:, None] & (d < width)[None, :]
    q = tl.load(q_ptr + batch * q_batch + head * q_head + row[:, None] * q_step + d[None, :], mask=here, other=0.0)
    of_key = k_ptr + batch * k_batch + (head // group) * k_head
    of_value = v_ptr + batch * v_batch + (head // group) * v_head
    of_mask = mask_ptr + batch * mask_batch + head * mask_head + row[:, None] * mask_step
    largest = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    found = tl.zeros((BLOCK_M, V_WIDTH), tl.float32)
    limit = keys
    if CAUSAL:
        limit = tl.minimum(keys, (block + 1) * BLOCK_M)
    for first in range(0, limit, BLOCK_N):
        key = first + tl.arange(0, BLOCK_N)
        there = (key < keys)[None, :] & (d < width)[:, None]
        k = tl.load(of_key + key[None, :] * k_step + d[:, None], mask=there, other=0.0)
        scores = tl.dot(q, k, input_precision="ieee") * scale  # not TF32: float32 is held to float32's error
        seen = (key < keys)[None, :] & (row < length)[:, None]
        if CAUSAL:
            seen = seen & (key[None, :] <= row[:, None])
        if MASK == 1:
            seen = seen & (tl.load(of_mask + key[None, :] * mask_key, mask=seen, other=0) != 0)
        if MASK == 2:
            scores += tl.load(of_mask + key[None, :] * mask_key, mask=seen, other=0.0).to(tl.float32)
        scores = tl.where(seen, scores, float("-inf"))
        larger = tl.maximum(largest, tl.max(scores, axis=1))
        base = tl.where(larger == float("-inf"), 0.0, larger)  # where no key is seen, -inf - -inf would be NaN
        weights = tl.exp(scores - base[:, None])
        fade = tl.exp(largest - base)
        total = total * fade + tl.sum(weights, axis=1)
        there = (key < keys)[:, None] & (d_out < v_width)[None, :]
        v = tl.load(of_value + key[:, None] * v_step + d_out[None, :], mask=there, other=0.0)
        found = found * fade[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        largest = larger
    found = found / tl.where(total == 0.0, 1.0, total)[:, None]
    at = (pair * length + row[:, None]) * v_width + d_out[None, :]
    mask = (row < length)[:, None] & (d_out < v_width)[None, :]
    tl.store(out_ptr + at, found.to(out_ptr.dtype.element_ty), mask=mask)


@register
class FlashAttention(Kernel):
    name = "flash_attention"
    schema = "(Tensor q, Tensor k, Tensor v, Tensor? mask, bool causal, float scale) -> Tensor"
    tolerances = products.TOLERANCES
    breadth = 5
    untrained = ("mask",)
    patterns: ClassVar[dict[str, Any]] = {
        "aten.scaled_dot_product_attention": call(
            aten.scaled_dot_product_attention.default,
            tensor("q"),
            tensor("k"),
            tensor("v"),
            attn_mask=optional("mask"),
            dropout_p=anything("dropout"),
            is_causal=anything("causal"),
            scale=anything("scale"),
            enable_gqa=anything(),
        )
    }

    def arguments(self, found: Found) -> tuple[Any, ...] | str:
        if found["dropout"] != 0:
            return "weights are dropped at random"
        width = value(found["q"]).shape[-1]
        scale = found["scale"]
        if scale is None and not isinstance(width, int):
            return "the width of a head is not fixed"
        scale = width**-0.5 if scale is None else scale
        return found["q"], found["k"], found["v"], found["mask"], found["causal"], float(scale)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float) -> Tensor:
        mask = None if mask is None else mask.detach()
        shared = not same_size(q.shape[1], k.shape[1])
        return F.scaled_dot_product_attention(q, k, v, mask, 0.0, causal, scale=scale, enable_gqa=shared)

    def fake(self, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        return (torch.empty((*q.shape[:-1], v.shape[-1]), dtype=q.dtype, device=q.device),)

    def configurations(self, q: Tensor, *rest: Any) -> tuple[Configuration, ...]:
        wide = q.shape[-1] > 128
        small = configuration(num_warps=4, num_stages=2, BLOCK_M=16, BLOCK_N=64)
        tall = configuration(num_warps=8, num_stages=2, BLOCK_M=64 if wide else 128, BLOCK_N=32)
        if q.dtype == torch.float32:  # its products run on vector units: larger tiles pass all registers
            return (small, tall)
        return (configuration(num_warps=4, num_stages=2, BLOCK_M=64, BLOCK_N=32 if wide else 64), tall, small)

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        q, k, v, mask, causal, scale = args
        batch, heads, length, width = q.shape
        keys, v_width = k.shape[2], v.shape[3]
        if not outputs[0].numel():
            return []
        q, k, v = (t if t.stride(-1) == 1 else t.contiguous() for t in (q, k, v))
        kind = 0 if mask is None else 1 if mask.dtype == torch.bool else 2
        strides = (0, 0, 0, 0)
        if mask is not None:
            mask = (mask.to(torch.int8) if kind == 1 else mask).expand(batch, heads, length, keys)
            strides = mask.stride()
        sizes = (length, keys, heads, heads // k.shape[1], width, v_width, scale)
        steps = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *strides)
        widths = {"WIDTH": power_of_two(width, 16), "V_WIDTH": power_of_two(v_width, 16)}
        constants = {"CAUSAL": causal, "MASK": kind, **widths, **configuration.constants}
        given = (q, k, v, q if mask is None else mask, *outputs, *sizes, *steps)
        grid = (ceil_div(length, configuration["BLOCK_M"]), batch * heads)
        return [Launch(_kernel, grid, given, constants, configuration.num_warps, configuration.num_stages)]

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        def three(batch: int, heads: int, kv: int, length: int, keys: int, width: int) -> tuple[Tensor, ...]:
            q = normal(batch, heads, length, width, dtype=dtype)
            return q, *[normal(batch, kv, keys, width, dtype=dtype, seed=s) for s in (1, 2)]

        hidden = coins(2, 1, 1, 9, seed=3)
        hidden[:, :, :, 0] = True
        return [
            Sample("2x2x5 of 9, width 7, bool mask", (*three(2, 2, 2, 5, 9, 7), hidden, False, 0.3)),
            Sample("causal", (*three(1, 2, 2, 70, 70, 16), None, True, 0.25)),
            Sample("four heads share two", (*three(1, 4, 2, 6, 6, 8), None, True, 0.35)),
            Sample("bias", (*three(1, 2, 2, 5, 70, 24), normal(2, 5, 70, dtype=dtype, seed=4), False, 0.2)),
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        q, k, v = (normal(1, 2, 4, 8, dtype=dtype, seed=s) for s in range(3))
        nothing = torch.ones(4, 4, dtype=torch.bool)
        nothing[1] = False
        behind = normal(1, 4, 2, 8, dtype=dtype).transpose(1, 2)
        return [
            Sample("a query that sees no key", (q, k, v, nothing, False, 0.5)),
            Sample("one key", (q, k[:, :, :1], v[:, :, :1], None, False, 0.5)),
            Sample("large", (q * 20, k * 20, v, None, False, 1.0)),
            Sample("heads behind steps", (behind, behind, behind, None, True, 0.5)),
            Sample("values of another width", (q, k, normal(1, 2, 4, 3, dtype=dtype), None, False, 0.5)),
            Sample("more queries than keys", (q, k[:, :, :2], v[:, :, :2], None, True, 0.5)),
            Sample("nothing", (q[:0], k[:0], v[:0], None, False, 0.5)),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        q, kv = meta(4, 32, 2048, 128, dtype=dtype), meta(4, 8, 2048, 128, dtype=dtype)
        return Sample("4x32x2048x128, 8 shared heads, causal", (q, kv, kv, None, True, 128**-0.5))

    def check(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float) -> str | None:
        if q.dtype not in rows.FLOATS or not q.dtype == k.dtype == v.dtype:
            return f"q, k and v are {q.dtype}, {k.dtype} and {v.dtype}: not one float dtype"
        if not q.dim() == k.dim() == v.dim() == 4:
            return "q, k and v are not [batch, heads, steps, width]"
        if not all(isinstance(size, int) for t in (q, k, v) for size in (t.shape[1], t.shape[3])):
            return "the number or the width of the heads is not fixed"
        if q.shape[3] != k.shape[3] or max(q.shape[3], v.shape[3]) > WIDEST:
            return f"heads of widths {q.shape[3]}, {k.shape[3]} and {v.shape[3]}: at most {WIDEST}"
        if k.shape[1] != v.shape[1] or q.shape[1] % k.shape[1]:
            return f"{q.shape[1]} heads do not share {k.shape[1]} and {v.shape[1]}"
        if not same_size(q.shape[0], k.shape[0]) or not same_size(k.shape[2], v.shape[2]):
            return "q, k and v differ in batch, or k and v in steps"
        if mask is None:
            return None
        if causal:
            return "there is a mask beside causal"
        sizes = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
        fits = all(
            same_size(a, b) or same_size(a, 1) for a, b in zip(reversed(mask.shape), reversed(sizes), strict=False)
        )
        if mask.dtype not in (torch.bool, q.dtype) or mask.dim() > 4 or not fits:
            return f"the mask is {mask.dtype} {tuple(mask.shape)}"
        return None

    def cost(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float) -> Cost:
        batch, heads, length, width = q.shape
        keys, v_width = v.shape[2], v.shape[3]
        moved = (q.numel() + k.numel() + v.numel() + batch * heads * length * v_width) * q.element_size()
        moved += 0 if mask is None else mask.numel() * mask.element_size()
        seen = length * keys
        if causal:
            seen = sum(min(keys, i + 1) for i in range(length))
        return Cost(bytes=moved, flops=batch * heads * seen * (2 * width + 2 * v_width + 4))
