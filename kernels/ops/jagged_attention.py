"""Scaled dot-product attention within each of several sequences laid end to end: no padding is read or computed.

    out[i] = sum over j in i's sequence of softmax(q[i] . k[j] * scale over j) * v[j]      (q, k, v: [values, heads, d])

causal hides what comes later in the sequence. Scores, maxima and sums are float32; the weights are rounded to v's
dtype before the last product. Called by name, for no exported graph says it: attention on a padded batch leaves out
what is longer than the padding, and nested tensors cannot be exported. What stands around it is recognised piece by
piece (`jagged_to_padded`, `flash_attention`, `padded_to_jagged`).

Source: Xu et al., "Enhancing Performance and Scalability of Large-Scale Recommendation Systems with Jagged Flash
Attention", 2024 (arXiv 2409.15373).
Not for: sequences longer than max_length (what lies beyond is not computed), or heads wider than 256.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels import products, rows
from kernels.inputs import meta, normal
from kernels.inputs import offsets as offsets_of
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
    same_shape,
)

tl: Any = None  # triton.language: `jit` sets it

WIDEST = 256


def _kernel(  # type: ignore[no-untyped-def]
    q_ptr,
    k_ptr,
    v_ptr,
    offsets_ptr,
    out_ptr,
    heads,
    width,
    scale,
    CAUSAL: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    start = tl.program_id(0) * BLOCK_M
    sample = tl.program_id(1) // heads
    head = tl.program_id(1) % heads
    scale = tl.cast(scale, tl.float32)  # a wrapper may pass the scalar as fp64
    begin = tl.load(offsets_ptr + sample).to(tl.int64)  # int64: an offset may pass 2**31
    length = tl.load(offsets_ptr + sample + 1).to(tl.int64) - begin
    row = start + tl.arange(0, BLOCK_M)
    d = tl.arange(0, WIDTH)[None, :]
    at = ((begin + row[:, None]) * heads + head) * width + d
    here = (row < length)[:, None] & (d < width)
    q = tl.load(q_ptr + at, mask=here, other=0.0)
    largest = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    found = tl.zeros((BLOCK_M, WIDTH), tl.float32)
    limit = length
    if CAUSAL:
        limit = tl.minimum(length, start + BLOCK_M)
    limit = tl.where(start < length, limit, 0)  # nothing to do beyond the sequence
    for first in range(0, limit, BLOCK_N):
        key = first + tl.arange(0, BLOCK_N)
        place = ((begin + key[:, None]) * heads + head) * width + d
        there = (key < length)[:, None] & (d < width)
        k = tl.load(k_ptr + place, mask=there, other=0.0)
        v = tl.load(v_ptr + place, mask=there, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale  # not TF32: held to float32's error
        seen = (key < length)[None, :] & (row < length)[:, None]
        if CAUSAL:
            seen = seen & (key[None, :] <= row[:, None])
        scores = tl.where(seen, scores, float("-inf"))
        larger = tl.maximum(largest, tl.max(scores, axis=1))
        base = tl.where(larger == float("-inf"), 0.0, larger)  # rows beyond the sequence see no key
        weights = tl.exp(scores - base[:, None])
        fade = tl.exp(largest - base)
        total = total * fade + tl.sum(weights, axis=1)
        found = found * fade[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        largest = larger
    found = found / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(out_ptr + at, found.to(out_ptr.dtype.element_ty), mask=here)


@register
class JaggedAttention(Kernel):
    name = "jagged_attention"
    schema = "(Tensor q, Tensor k, Tensor v, Tensor offsets, int max_length, bool causal, float scale) -> Tensor"
    tolerances = products.TOLERANCES

    def reference(
        self, q: Tensor, k: Tensor, v: Tensor, offsets: Tensor, max_length: int, causal: bool, scale: float
    ) -> Tensor:
        total = q.shape[0]
        if total == 0:
            return q + k + v
        step = torch.arange(max_length, device=q.device)
        place = offsets[:-1, None] + step
        there = place < offsets[1:, None]
        place = place.clamp(max=total - 1)
        q, k, v = (t[place].transpose(1, 2) for t in (q, k, v))
        seen = there[:, None, None, :]
        if causal:
            seen = seen & (step[None, :] <= step[:, None])
        out = F.scaled_dot_product_attention(q, k, v, seen, scale=scale).transpose(1, 2)
        at = torch.arange(total, device=q.device)
        sample = torch.searchsorted(offsets.contiguous(), at.to(offsets.dtype), right=True) - 1
        return out[sample, at - offsets[sample]]

    def fake(self, q: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        return (torch.empty(q.shape, dtype=q.dtype, device=q.device),)

    def configurations(self, q: Tensor, *rest: Any) -> tuple[Configuration, ...]:
        small = configuration(num_warps=4, num_stages=2, BLOCK_M=16, BLOCK_N=32)
        if q.dtype == torch.float32:  # its products run on vector units: larger tiles pass all registers
            return (small, configuration(num_warps=4, num_stages=2, BLOCK_M=32, BLOCK_N=32))
        return (configuration(num_warps=4, num_stages=2, BLOCK_M=64, BLOCK_N=64), small)

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        q, k, v, offsets, max_length, causal, scale = args
        _, heads, width = q.shape
        if not q.numel() or not max_length:
            return []
        grid = (ceil_div(max_length, configuration["BLOCK_M"]), (offsets.shape[0] - 1) * heads)
        given = (q.contiguous(), k.contiguous(), v.contiguous(), offsets.contiguous(), *outputs, heads, width, scale)
        constants = {"CAUSAL": causal, "WIDTH": power_of_two(width, 16), **configuration.constants}
        return [Launch(_kernel, grid, given, constants, configuration.num_warps, configuration.num_stages)]

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        def three(values: int, heads: int, width: int) -> list[Tensor]:
            return [normal(values, heads, width, dtype=dtype, seed=s) for s in range(3)]

        return [
            Sample("ragged", (*three(9, 2, 7), offsets_of(2, 0, 5, 2), 5, False, 0.4)),
            Sample("ragged, causal", (*three(9, 2, 7), offsets_of(2, 0, 5, 2), 5, True, 0.4)),
            Sample("several tiles", (*three(75, 1, 16), offsets_of(70, 5), 70, True, 0.25)),
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        q, k, v = (normal(6, 1, 4, dtype=dtype, seed=s) for s in range(3))
        return [
            Sample("sequences of one", (q, k, v, offsets_of(1, 1, 1, 1, 1, 1), 1, True, 1.0)),
            Sample("large", (q * 20, k * 20, v, offsets_of(4, 2), 4, False, 1.0)),
            Sample("int32 offsets", (q, k, v, offsets_of(3, 3).int(), 3, False, 1.0)),
            Sample("all empty", (q[:0], k[:0], v[:0], offsets_of(0, 0), 3, False, 1.0)),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        q, offsets = meta(131_072, 8, 64, dtype=dtype), meta(513, dtype=torch.int64)
        return Sample("512 sequences of up to 512, 8 heads of 64", (q, q, q, offsets, 512, True, 0.125))

    def check(
        self, q: Tensor, k: Tensor, v: Tensor, offsets: Tensor, max_length: int, causal: bool, scale: float
    ) -> str | None:
        fault = rows.why_not_jagged(q, offsets, 3)
        if fault is None and not (same_shape(q, k) and same_shape(q, v) and q.dtype == k.dtype == v.dtype):
            fault = "q, k and v differ in shape or dtype"
        if fault is None and not (isinstance(q.shape[2], int) and q.shape[2] <= WIDEST):
            fault = f"the width of a head is not fixed, or above {WIDEST}"
        return fault

    def cost(
        self, q: Tensor, k: Tensor, v: Tensor, offsets: Tensor, max_length: int, causal: bool, scale: float
    ) -> Cost:
        moved = 4 * q.numel() * q.element_size() + offsets.numel() * offsets.element_size()
        # the lengths are data: as if all sequences were equally long
        length = q.shape[0] / max(offsets.shape[0] - 1, 1)
        scores = q.shape[0] * q.shape[1] * length * (0.5 if causal else 1.0)
        return Cost(bytes=moved, flops=int(scores * (4 * q.shape[2] + 4)))
