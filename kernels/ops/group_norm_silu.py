"""GroupNorm and the SiLU behind it, in two walks over memory in place of four.

    normed = (x - mean) / sqrt(var + eps) * weight[c] + bias[c]        (mean, var over a group's channels and places)
    out    = normed * sigmoid(normed)

Computed in float32 (float64 for float64 inputs) and rounded once; tiles' moments are merged as Chan, Golub and LeVeque
do, never mean(x ** 2) - mean ** 2, which cancels.

Sources: Wu and He, "Group Normalization", 2018 (arXiv 1803.08494); Chan, Golub and LeVeque, "Updating Formulae and a
Pairwise Algorithm for Computing Sample Variances", 1979.
Not for: channels_last memory (it is copied first).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels import rows
from kernels.inputs import meta, normal
from kernels.patterns import Found, anything, aten, call, number, optional, tensor
from kernels.spec import Configuration, Cost, Kernel, Launch, Sample, configuration, power_of_two, register, same_size
from kernels.spellings import silu

tl: Any = None  # triton.language: `jit` sets it


def _kernel(  # type: ignore[no-untyped-def]
    x_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    groups,
    channels,
    places,
    size,
    eps,
    HAS_WEIGHT: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    program = tl.program_id(0).to(tl.int64)  # int64: an offset may pass 2**31
    start = program * size
    first_channel = (program % groups) * channels
    at = tl.arange(0, BLOCK)
    eps = tl.cast(eps, tl.float32)  # a wrapper may pass the scalar as fp64
    mean = tl.cast(0.0, tl.float32)
    squares = tl.cast(0.0, tl.float32)
    for first in range(0, size, BLOCK):
        here = first + at
        x = tl.load(x_ptr + start + here, mask=here < size, other=0.0).to(tl.float32)
        seen = tl.cast(first, tl.float32)
        fresh = tl.cast(tl.minimum(size - first, BLOCK), tl.float32)
        tile_mean = tl.sum(x, axis=0) / fresh
        centred = tl.where(here < size, x - tile_mean, 0.0)
        shift = tile_mean - mean
        share = fresh / (seen + fresh)
        mean += shift * share
        squares += tl.sum(centred * centred, axis=0) + shift * shift * seen * share
    scale = tl.rsqrt(squares / size + eps)
    for first in range(0, size, BLOCK):
        here = first + at
        x = tl.load(x_ptr + start + here, mask=here < size, other=0.0).to(tl.float32)
        out = (x - mean) * scale
        channel = first_channel + here // places
        if HAS_WEIGHT:
            out *= tl.load(weight_ptr + channel, mask=here < size, other=0.0).to(tl.float32)
        if HAS_BIAS:
            out += tl.load(bias_ptr + channel, mask=here < size, other=0.0).to(tl.float32)
        out = out * tl.sigmoid(out)
        tl.store(out_ptr + start + here, out.to(out_ptr.dtype.element_ty), mask=here < size)


@register
class GroupNormSilu(Kernel):
    name = "group_norm_silu"
    schema = "(Tensor x, int groups, Tensor? weight, Tensor? bias, float eps) -> Tensor"
    tolerances = rows.TOLERANCES
    breadth = 3
    patterns: ClassVar[dict[str, Any]] = {
        "silu(group_norm(x))": silu(
            call(
                aten.group_norm.default,
                tensor("x"),
                number("groups"),
                weight=optional("weight"),
                bias=optional("bias"),
                eps=number("eps"),
                cudnn_enabled=anything(),
            )
        )
    }

    def arguments(self, found: Found) -> tuple[Any, ...] | str:
        return found["x"], found["groups"], found["weight"], found["bias"], float(found["eps"])

    def reference(self, x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        weight, bias = (None if p is None else p.to(wide.dtype) for p in (weight, bias))
        return F.silu(F.group_norm(wide, groups, weight, bias, eps)).to(x.dtype)

    def fake(self, x: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        return (torch.empty(x.shape, dtype=x.dtype, device=x.device),)

    def configurations(self, x: Tensor, groups: int, *rest: Any) -> tuple[Configuration, ...]:
        block = min(4096, power_of_two(x[0].numel() // groups if x.shape[0] else 1, 16))
        return (configuration(num_warps=8, BLOCK=block), configuration(num_warps=4, BLOCK=max(16, block // 4)))

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        x, groups, weight, bias, eps = args
        if not x.numel():
            return []
        x = x.contiguous()
        channels = x.shape[1] // groups
        places = x[0, 0].numel()
        parameters = [x if p is None else p.contiguous() for p in (weight, bias)]
        given = (x, *parameters, *outputs, groups, channels, places, channels * places, eps)
        constants = {"HAS_WEIGHT": weight is not None, "HAS_BIAS": bias is not None, **configuration.constants}
        return [Launch(_kernel, (x.shape[0] * groups,), given, constants, configuration.num_warps)]

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        def vectors(channels: int) -> list[Tensor]:
            return [normal(channels, dtype=dtype, seed=s) for s in (1, 2)]

        return [
            Sample("2x6x5x7", (normal(2, 6, 5, 7, dtype=dtype), 3, *vectors(6), 1e-5)),
            Sample("3x4x33", (normal(3, 4, 33, dtype=dtype), 2, *vectors(4), 1e-5)),
            Sample("without parameters", (normal(2, 4, 9, dtype=dtype), 4, None, None, 1e-5)),
            Sample("wider than a tile", (normal(1, 4, 40, 41, dtype=dtype), 1, *vectors(4), 1e-5)),
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        x, ones = normal(2, 4, 3, 5, dtype=dtype), torch.ones(4, dtype=dtype)
        image = normal(2, 3, 5, 4, dtype=dtype).permute(0, 3, 1, 2)
        return [
            Sample("zeros", (torch.zeros_like(x), 2, ones, ones, 1e-5)),
            Sample("constant and far from zero", (torch.full_like(x, 96), 2, ones, ones, 1e-5)),
            Sample("large", (x * 100, 1, ones, None, 1e-5)),
            Sample("channels last", (image, 2, ones, ones, 1e-5)),
            Sample("no places", (normal(2, 6, dtype=dtype), 3, None, None, 1e-5)),
            Sample("nothing", (x[:0], 2, ones, ones, 1e-5)),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        vector = meta(320, dtype=dtype)
        return Sample("8x320x64x64", (meta(8, 320, 64, 64, dtype=dtype), 32, vector, vector, 1e-5))

    def check(self, x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float) -> str | None:
        if x.dtype not in rows.FLOATS:
            return f"the dtype is {x.dtype}, not a floating point one"
        if x.dim() < 2 or not isinstance(x.shape[1], int) or groups < 1 or x.shape[1] % groups:
            return f"the channels of {tuple(x.shape)} do not fall into {groups} groups"
        for name, vector in (("weight", weight), ("bias", bias)):
            if vector is not None and (vector.dim() != 1 or not same_size(vector.shape[0], x.shape[1])):
                return f"the {name}'s shape {tuple(vector.shape)} is not the channels' ({x.shape[1]},)"
        return None

    def cost(self, x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float) -> Cost:
        moved = sum(p.numel() * p.element_size() for p in (weight, bias) if p is not None)
        return Cost(bytes=2 * x.numel() * x.element_size() + moved, flops=11 * x.numel())
