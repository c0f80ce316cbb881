"""RMSNorm whose result leaves as int8 with one scale per row: the input of an int8 matrix product.

    normed = x / sqrt(mean(x ** 2, over the last dim) + eps) * weight
    scale  = max(max(|normed|) / 127, floor);  quantised = round(normed / scale), between -127 and 127

Computed in float32 (float64 for float64 inputs), the scale included, and rounded once. A value that lies half-way
between two integers may be rounded either way, so that a quantised element may differ by one.

Sources: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019 (arXiv 1910.07467); Xiao et al.,
"SmoothQuant", 2022 (arXiv 2211.10438), the dynamic scale per token.
Not for: training.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.fx import Node

from kernels import norms, patterns, rows
from kernels.inputs import meta
from kernels.patterns import anything, aten, call, either, named, number, tensor
from kernels.spec import Configuration, Cost, Kernel, Launch, Match, Mismatch, Sample, Tolerance, register

tl: Any = None  # triton.language: `jit` sets it


def _kernel(  # type: ignore[no-untyped-def]
    x_ptr,
    weight_ptr,
    out_ptr,
    scale_ptr,
    n_rows,
    width,
    eps,
    floor,
    HAS_WEIGHT: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WHOLE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)  # int64: rows * width may pass 2**31
    at_row = row[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    eps, floor = tl.cast(eps, tl.float32), tl.cast(floor, tl.float32)  # a wrapper may pass them as fp64
    squares = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, width, COLUMNS):
        here = first + column
        x = tl.load(x_ptr + at_row * width + here, mask=(at_row < n_rows) & (here < width), other=0.0).to(tl.float32)
        squares += x * x
    root = tl.rsqrt(tl.sum(squares, axis=1) / width + eps)[:, None]
    largest = tl.zeros((ROWS,), tl.float32)
    for first in range(0, width, COLUMNS):
        here = first + column
        x = tl.load(x_ptr + at_row * width + here, mask=(at_row < n_rows) & (here < width), other=0.0).to(tl.float32)
        normed = x * root
        if HAS_WEIGHT:
            normed *= tl.load(weight_ptr + here, mask=here < width, other=0.0).to(tl.float32)
        largest = tl.maximum(largest, tl.max(tl.abs(normed), axis=1))
    scale = tl.maximum(largest / 127.0, floor)
    tl.store(scale_ptr + row, scale, mask=row < n_rows)
    for first in range(0, width, COLUMNS):
        here = first + column
        mask = (at_row < n_rows) & (here < width)
        x = tl.load(x_ptr + at_row * width + here, mask=mask, other=0.0).to(tl.float32)
        normed = x * root
        if HAS_WEIGHT:
            normed *= tl.load(weight_ptr + here, mask=here < width, other=0.0).to(tl.float32)
        steps = tl.floor(normed / scale[:, None] + 0.5)
        steps = tl.minimum(tl.maximum(steps, -127.0), 127.0)
        tl.store(out_ptr + at_row * width + here, steps.to(tl.int8), mask=mask)


_NORMED = tensor("normed")
_LARGEST = call(aten.amax.default, call(aten.abs.default, _NORMED), anything("over"), True)


def _at_least(x: Any, name: str) -> Any:
    return call((aten.clamp.default, aten.clamp_min.default), x, number(name))


_SCALE = named(
    "scale",
    either(
        _at_least(call(aten.div.Tensor, _LARGEST, 127), "floor"),
        call(aten.div.Tensor, _at_least(_LARGEST, "floor_of_largest"), 127),
    ),
)
_STEPS = call(aten.round.default, call(aten.div.Tensor, _NORMED, _SCALE))


@register
class RmsNormInt8(Kernel):
    name = "rms_norm_int8"
    schema = "(Tensor x, Tensor? weight, float eps, float floor) -> (Tensor, Tensor)"
    tolerances: ClassVar[dict[torch.dtype, Tolerance]] = {
        dtype: Tolerance(absolute=1e-7, relative=2e-5) for dtype in rows.TOLERANCES
    }  # of the float32 scale
    integer_tolerance = 1
    differentiable = False
    breadth = 6
    spellings = (
        "an RMSNorm in any spelling, clamp(amax(abs) / 127), round(normed / scale).clamp(-127, 127).to(int8)",
        "the same with clamp(amax(abs)) / 127",
    )

    def match(self, anchor: Node) -> Match | Mismatch | None:
        """The anchor is the conversion to int8."""
        low, high = number("low"), number("high")
        whole = call(patterns.CASTS, either(call(aten.clamp.default, _STEPS, low, high), _STEPS), anything("dtype"))
        found = patterns.find(whole, anchor)
        if found is None or found["dtype"] != torch.int8:
            return None
        if (found.get("low"), found.get("high")) not in ((-127, 127), (-128, 127), (None, None)):
            return Mismatch("the integers are not clamped to int8", anchor)
        norm = norms.rms_norm_that_gives(found["normed"])
        if norm is None:
            return None
        if not patterns.last(found["over"], patterns.value(norm.source).dim()):
            return Mismatch("the scale is not over the last dimension alone", anchor)
        floor = float(found.get("floor", found.get("floor_of_largest", 0) / 127))
        inside = tuple(dict.fromkeys((*found.inside, norm.normed, *norm.inside)))
        args = (norm.source, *norm.parameters, norm.eps, floor)
        return self.complete(args, (anchor, found["scale"]), inside)

    def reference(self, x: Tensor, weight: Tensor | None, eps: float, floor: float) -> tuple[Tensor, Tensor]:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
        if weight is not None:
            normed = normed * weight.to(wide.dtype)
        scale = (normed.abs().amax(-1, keepdim=True) / 127).clamp(min=floor)
        return torch.round(normed / scale).clamp(-127, 127).to(torch.int8), scale

    def fake(self, x: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        quantised = torch.empty(x.shape, dtype=torch.int8, device=x.device)
        wide = torch.promote_types(x.dtype, torch.float32)
        return quantised, torch.empty((*x.shape[:-1], 1), dtype=wide, device=x.device)

    def configurations(self, x: Tensor, *rest: Any) -> tuple[Configuration, ...]:
        return rows.configurations(x.shape[-1])

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        x, weight, eps, floor = args
        n_rows, width = rows.rows_of(x)
        x = x.contiguous()
        weight_or_any = x if weight is None else weight.contiguous()
        given = (x, weight_or_any, *outputs, n_rows, width, eps, floor)
        return rows.launches(_kernel, given, n_rows, width, configuration, HAS_WEIGHT=weight is not None)

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        return [Sample(s.name, (*s.args, 1e-8)) for s in norms.samples(dtype, parameters=1, eps=1e-6, inputs=1)]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        return [Sample(s.name, (*s.args, 1e-8)) for s in norms.edges(dtype, parameters=1, eps=1e-6, inputs=1)]

    def typical(self, dtype: torch.dtype) -> Sample:
        return Sample("8192x4096", (meta(8192, 4096, dtype=dtype), meta(4096, dtype=dtype), 1e-6, 1e-8))

    def check(self, x: Tensor, weight: Tensor | None, eps: float, floor: float) -> str | None:
        if floor <= 0:
            return "a floor that is not above zero lets a row of zeros divide by zero"
        return rows.why_not_row(x, {"weight": weight})

    def cost(self, x: Tensor, weight: Tensor | None, eps: float, floor: float) -> Cost:
        n_rows = x.numel() // x.shape[-1]
        moved = 0 if weight is None else weight.numel() * weight.element_size()
        return Cost(bytes=x.numel() * (x.element_size() + 1) + 4 * n_rows + moved, flops=8 * x.numel())
