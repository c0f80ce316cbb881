"""LayerNorm, with GELU behind it or not, in one pass over memory.

    normed = (x - mean) / sqrt(var + eps) * weight + bias      (mean, var over the last dim; var of the population)
    out    = normed, or gelu(normed) when activation is "gelu", or its tanh form when it is "gelu_tanh"

Computed in float32 (float64 for float64 inputs) and rounded once. The variance is that of the centred row, never
mean(x ** 2) - mean ** 2, which cancels; wide rows merge the tiles' moments as Chan, Golub and LeVeque do.

Sources: Ba, Kiros and Hinton, "Layer Normalization", 2016 (arXiv 1607.06450); Hendrycks and Gimpel, "Gaussian Error
Linear Units", 2016 (arXiv 1606.08415).
Not for: a norm over more than the last dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import Node

from kernels import norms, rows
from kernels.inputs import meta
from kernels.patterns import arguments, only_user
from kernels.spec import Configuration, Cost, Kernel, Launch, Match, Mismatch, Sample, register

tl: Any = None  # triton.language: `jit` sets it

ACTIVATIONS = ("none", "gelu", "gelu_tanh")


def _kernel(  # type: ignore[no-untyped-def]
    x_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    n_rows,
    width,
    eps,
    HAS_WEIGHT: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    ACTIVATION: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WHOLE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)  # int64: rows * width may pass 2**31
    row = row[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    eps = tl.cast(eps, tl.float32)  # a wrapper may pass the scalar as fp64, which would drag the row with it
    mean = tl.zeros((ROWS,), tl.float32)
    squares = tl.zeros((ROWS,), tl.float32)
    if WHOLE:
        mask = (row < n_rows) & (column < width)
        x = tl.load(x_ptr + row * width + column, mask=mask, other=0.0).to(tl.float32)
        mean = tl.sum(x, axis=1) / width
        centred = tl.where(column < width, x - mean[:, None], 0.0)
        squares = tl.sum(centred * centred, axis=1)
    else:
        for first in range(0, width, COLUMNS):
            here = first + column
            mask = (row < n_rows) & (here < width)
            x = tl.load(x_ptr + row * width + here, mask=mask, other=0.0).to(tl.float32)
            seen = tl.cast(first, tl.float32)
            fresh = tl.cast(tl.minimum(width - first, COLUMNS), tl.float32)
            tile_mean = tl.sum(x, axis=1) / fresh
            centred = tl.where(here < width, x - tile_mean[:, None], 0.0)
            shift = tile_mean - mean
            share = fresh / (seen + fresh)
            mean += shift * share
            squares += tl.sum(centred * centred, axis=1) + shift * shift * seen * share
    scale = tl.rsqrt(squares / width + eps)
    for first in range(0, width, COLUMNS):
        here = first + column
        mask = (row < n_rows) & (here < width)
        x = tl.load(x_ptr + row * width + here, mask=mask, other=0.0).to(tl.float32)
        out = (x - mean[:, None]) * scale[:, None]
        if HAS_WEIGHT:
            out *= tl.load(weight_ptr + here, mask=here < width, other=0.0).to(tl.float32)
        if HAS_BIAS:
            out += tl.load(bias_ptr + here, mask=here < width, other=0.0).to(tl.float32)
        if ACTIVATION == 1:
            out = 0.5 * out * (1.0 + tl.erf(out * 0.7071067811865476))
        if ACTIVATION == 2:
            out = out * tl.sigmoid(1.5957691216057308 * (out + 0.044715 * out * out * out))  # tanh(z) = 2 s(2 z) - 1
        tl.store(out_ptr + row * width + here, out.to(out_ptr.dtype.element_ty), mask=mask)


@register
class LayerNorm(Kernel):
    name = "layer_norm"
    schema = "(Tensor x, Tensor? weight, Tensor? bias, float eps, str activation) -> Tensor"
    tolerances = rows.TOLERANCES
    spellings = (*norms.LAYER_SPELLINGS, "either, and aten.gelu as its only user")
    breadth = 2

    def reference(self, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, activation: str) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        weight, bias = (None if p is None else p.to(wide.dtype) for p in (weight, bias))
        out = F.layer_norm(wide, (wide.shape[-1],), weight, bias, eps)
        if activation != "none":
            out = F.gelu(out, approximate="tanh" if activation == "gelu_tanh" else "none")
        return out.to(x.dtype)

    def fake(self, x: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        return (torch.empty(x.shape, dtype=x.dtype, device=x.device),)

    def configurations(self, x: Tensor, *rest: Any) -> tuple[Configuration, ...]:
        return rows.configurations(x.shape[-1])

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        x, weight, bias, eps, activation = args
        n_rows, width = rows.rows_of(x)
        x = x.contiguous()
        parameters = [x if p is None else p.contiguous() for p in (weight, bias)]
        return rows.launches(
            _kernel,
            (x, *parameters, *outputs, n_rows, width, eps),
            n_rows,
            width,
            configuration,
            HAS_WEIGHT=weight is not None,
            HAS_BIAS=bias is not None,
            ACTIVATION=ACTIVATIONS.index(activation),
        )

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        plain = norms.samples(dtype, parameters=2, eps=1e-5, inputs=1)
        kinds = [ACTIVATIONS[i % len(ACTIVATIONS)] for i in range(len(plain))]
        return [Sample(f"{s.name} {kind}", (*s.args, kind)) for s, kind in zip(plain, kinds, strict=True)]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        plain = norms.edges(dtype, parameters=2, eps=1e-5, inputs=1)
        return [Sample(s.name, (*s.args, "gelu")) for s in plain]

    def typical(self, dtype: torch.dtype) -> Sample:
        vector = meta(1024, dtype=dtype)
        return Sample("16384x1024 gelu", (meta(16384, 1024, dtype=dtype), vector, vector, 1e-5, "gelu"))

    def check(self, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, activation: str) -> str | None:
        if activation not in ACTIVATIONS:
            return f"there is no activation {activation!r} behind a LayerNorm here"
        return rows.why_not_row(x, {"weight": weight, "bias": bias})

    def cost(self, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, activation: str) -> Cost:
        moved = sum(p.numel() * p.element_size() for p in (weight, bias) if p is not None)
        flops = 7 + (0 if activation == "none" else 8)
        return Cost(bytes=2 * x.numel() * x.element_size() + moved, flops=flops * x.numel())

    def match(self, anchor: Node) -> Match | Mismatch | None:
        found = norms.alone(norms.find_layer_norm(anchor))
        if found is None or isinstance(found, Mismatch):
            return found
        (normed,) = found.outputs
        assert normed is not None
        following = only_user(normed)
        if following is None or following.target is not torch.ops.aten.gelu.default:
            return Match((*found.args, "none"), (normed,), found.inside)
        kind = "gelu_tanh" if arguments(following)["approximate"] == "tanh" else "gelu"
        return Match((*found.args, kind), (following,), (*found.inside, normed))
