"""Adaptive LayerNorm (adaLN): the norm, and a scale and a shift that come from the condition, in one pass.

    normed = (x - mean) / sqrt(var + eps) * weight + bias            (mean, var over the last dim)
    out    = normed * (1 + scale) + shift                            (scale, shift: one vector for each sample)

Computed in float32 (float64 for float64 inputs) and rounded once.

Source: Peebles and Xie, "Scalable Diffusion Models with Transformers", 2023 (arXiv 2212.09748), adaLN-Zero.
Not for: a scale per position, or the gate behind the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels import rows
from kernels.inputs import meta, normal
from kernels.patterns import Found, add, anything, aten, call, either, mul, number, optional, shared, tensor
from kernels.spec import Configuration, Cost, Kernel, Launch, Sample, register, same_size

tl: Any = None  # triton.language: `jit` sets it


def _kernel(  # type: ignore[no-untyped-def]
    x_ptr,
    scale_ptr,
    shift_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    n_rows,
    width,
    length,
    eps,
    HAS_WEIGHT: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WHOLE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)  # int64: rows * width may pass 2**31
    row = row[:, None]
    sample = row // length
    column = tl.arange(0, COLUMNS)[None, :]
    eps = tl.cast(eps, tl.float32)  # a wrapper may pass the scalar as fp64
    mean = tl.zeros((ROWS,), tl.float32)
    squares = tl.zeros((ROWS,), tl.float32)
    for first in range(0, width, COLUMNS):
        here = first + column
        mask = (row < n_rows) & (here < width)
        x = tl.load(x_ptr + row * width + here, mask=mask, other=0.0).to(tl.float32)
        seen = tl.cast(first, tl.float32)
        fresh = tl.cast(tl.minimum(width - first, COLUMNS), tl.float32)
        tile_mean = tl.sum(x, axis=1) / fresh
        centred = tl.where(here < width, x - tile_mean[:, None], 0.0)
        away = tile_mean - mean
        share = fresh / (seen + fresh)
        mean += away * share
        squares += tl.sum(centred * centred, axis=1) + away * away * seen * share
    root = tl.rsqrt(squares / width + eps)
    for first in range(0, width, COLUMNS):
        here = first + column
        mask = (row < n_rows) & (here < width)
        x = tl.load(x_ptr + row * width + here, mask=mask, other=0.0).to(tl.float32)
        out = (x - mean[:, None]) * root[:, None]
        if HAS_WEIGHT:
            out *= tl.load(weight_ptr + here, mask=here < width, other=0.0).to(tl.float32)
        if HAS_BIAS:
            out += tl.load(bias_ptr + here, mask=here < width, other=0.0).to(tl.float32)
        scale = tl.load(scale_ptr + sample * width + here, mask=mask, other=0.0).to(tl.float32)
        shift = tl.load(shift_ptr + sample * width + here, mask=mask, other=0.0).to(tl.float32)
        out = out * (1.0 + scale) + shift
        tl.store(out_ptr + row * width + here, out.to(out_ptr.dtype.element_ty), mask=mask)


def _along(vector: Any) -> Any:
    return either(shared(call(aten.unsqueeze.default, vector, 1)), vector)


_NORM = call(
    aten.layer_norm.default,
    tensor("x"),
    anything("shape"),
    weight=optional("weight"),
    bias=optional("bias"),
    eps=number("eps"),
    cudnn_enable=anything(),
)
_SCALE = either(
    shared(call(aten.unsqueeze.default, shared(add(tensor("scale"), 1)), 1)), add(_along(tensor("scale")), 1)
)


@register
class Modulate(Kernel):
    name = "modulate"
    schema = "(Tensor x, Tensor scale, Tensor shift, Tensor? weight, Tensor? bias, float eps) -> Tensor"
    tolerances = rows.TOLERANCES
    breadth = 5
    patterns: ClassVar[dict[str, Any]] = {
        "layer_norm(x) * (1 + scale) + shift": either(
            add(mul(_NORM, _SCALE), _along(tensor("shift"))),
            call(aten.addcmul.default, _along(tensor("shift")), _NORM, _SCALE),
            call(aten.addcmul.default, _along(tensor("shift")), _SCALE, _NORM),
        )
    }

    def arguments(self, found: Found) -> tuple[Any, ...] | str:
        if len(found["shape"]) != 1:
            return "the norm runs over more than the last dimension"
        return found["x"], found["scale"], found["shift"], found["weight"], found["bias"], float(found["eps"])

    def reference(
        self, x: Tensor, scale: Tensor, shift: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        weight, bias = (None if p is None else p.to(wide.dtype) for p in (weight, bias))
        scale, shift = ((p if p.dim() == 3 else p.unsqueeze(1)).to(wide.dtype) for p in (scale, shift))
        return (F.layer_norm(wide, (wide.shape[-1],), weight, bias, eps) * (1 + scale) + shift).to(x.dtype)

    def fake(self, x: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        return (torch.empty(x.shape, dtype=x.dtype, device=x.device),)

    def configurations(self, x: Tensor, *rest: Any) -> tuple[Configuration, ...]:
        return rows.configurations(x.shape[-1])

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        x, scale, shift, weight, bias, eps = args
        n_rows, width = rows.rows_of(x)
        x, scale, shift = x.contiguous(), scale.contiguous(), shift.contiguous()
        parameters = [x if p is None else p.contiguous() for p in (weight, bias)]
        given = (x, scale, shift, *parameters, *outputs, n_rows, width, x.shape[1], eps)
        has = {"HAS_WEIGHT": weight is not None, "HAS_BIAS": bias is not None}
        return rows.launches(_kernel, given, n_rows, width, configuration, **has)

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        def given(batch: int, length: int, width: int, parameters: bool) -> tuple[Any, ...]:
            vectors = [normal(batch, width, dtype=dtype, seed=s) for s in (1, 2)]
            own = [normal(width, dtype=dtype, seed=s) if parameters else None for s in (3, 4)]
            return (normal(batch, length, width, dtype=dtype), *vectors, *own, 1e-6)

        return [
            Sample("3x5x123", given(3, 5, 123, True)),
            Sample("2x3x64 without parameters", given(2, 3, 64, False)),
            Sample("1x1x4097", given(1, 1, 4097, False)),
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        x, vector = normal(2, 3, 8, dtype=dtype), normal(2, 8, dtype=dtype, seed=1)
        return [
            Sample("zeros", (torch.zeros_like(x), vector, vector, None, None, 1e-6)),
            Sample("large", (x * 100, vector, vector, None, None, 1e-6)),
            Sample("a scale of -1", (x, torch.full_like(vector, -1), vector, None, None, 1e-6)),
            Sample("with a step", (x, vector.unsqueeze(1), vector.unsqueeze(1), None, None, 1e-6)),
            Sample("nothing", (x[:0], vector[:0], vector[:0], None, None, 1e-6)),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        vector = meta(16, 1152, dtype=dtype)
        return Sample("16x1024x1152", (meta(16, 1024, 1152, dtype=dtype), vector, vector, None, None, 1e-6))

    def check(
        self, x: Tensor, scale: Tensor, shift: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> str | None:
        if x.dim() != 3:
            return f"x has {x.dim()} dimensions, not batch, steps and width"
        for name, vector in (("scale", scale), ("shift", shift)):
            if vector.dtype != x.dtype:
                return f"the {name} has dtype {vector.dtype}, x {x.dtype}"
            sizes = (x.shape[0], x.shape[2]) if vector.dim() == 2 else (x.shape[0], 1, x.shape[2])
            if vector.dim() != len(sizes) or not all(same_size(a, b) for a, b in zip(vector.shape, sizes, strict=True)):
                return f"the {name} {tuple(vector.shape)} is not one vector for each sample of x {tuple(x.shape)}"
        return rows.why_not_row(x, {"weight": weight, "bias": bias})

    def cost(
        self, x: Tensor, scale: Tensor, shift: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> Cost:
        moved = 2 * x.numel() + scale.numel() + shift.numel()
        moved += sum(p.numel() for p in (weight, bias) if p is not None)
        return Cost(bytes=moved * x.element_size(), flops=9 * x.numel())
