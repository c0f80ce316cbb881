"""Mean over the valid positions of padded sequences, in one pass.

    out[b] = (sum over l of x[b, l] * mask[b, l]) / max((sum over l of mask[b, l]) + eps, floor)

The mask may hold any weights. Computed in float32 (float64 for float64 inputs) and rounded once. Without eps and floor
a row of nothing but padding gives NaN, as the plain division does.

Source: the usual pooling of a user's behaviour sequence, as in Covington et al., "Deep Neural Networks for YouTube
Recommendations", 2016 (RecSys).
Not for: maxima, or sequences stored without padding (see `jagged_to_padded`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.fx import Node

from kernels import rows
from kernels.inputs import coins, meta, normal
from kernels.patterns import (
    CASTS,
    Found,
    Pattern,
    add,
    anything,
    aten,
    call,
    either,
    is_dim,
    mul,
    number,
    shared,
    tensor,
    value,
)
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
from kernels.spellings import einsum

tl: Any = None  # triton.language: `jit` sets it


def _kernel(  # type: ignore[no-untyped-def]
    x_ptr,
    mask_ptr,
    out_ptr,
    batch,
    length,
    width,
    eps,
    floor,
    HAS_FLOOR: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)  # int64: an offset may pass 2**31
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    eps, floor = tl.cast(eps, tl.float32), tl.cast(floor, tl.float32)  # a wrapper may pass them as fp64
    mask = (row < batch)[:, None] & (column < width)
    count = tl.zeros((ROWS,), tl.float32)
    found = tl.zeros((ROWS, COLUMNS), tl.float32)
    for step in range(0, length):
        weight = tl.load(mask_ptr + row * length + step, mask=row < batch, other=0).to(tl.float32)
        x = tl.load(x_ptr + (row[:, None] * length + step) * width + column, mask=mask, other=0.0).to(tl.float32)
        count += weight
        found += weight[:, None] * x
    count += eps
    if HAS_FLOOR:
        count = tl.maximum(count, floor)
    found = found / count[:, None]
    tl.store(out_ptr + row[:, None] * width + column, found.to(out_ptr.dtype.element_ty), mask=mask)


def _mean(total: Pattern, count: Pattern) -> Pattern:
    guarded = either(
        call(aten.clamp.default, count, number("floor")),
        call(aten.clamp_min.default, count, number("floor")),
        add(count, number("eps")),
        count,
    )
    return call(aten.div.Tensor, total, guarded)


def _sum(weights: Pattern) -> Pattern:
    return call(aten.sum.dim_IntList, mul(tensor("x"), weights), anything("over_x"))


def _before_widening(mask: Node) -> Node:
    """[batch, steps, 1] or [batch, steps] out of a mask that was expanded over the width and cast, in any order."""
    widened = value(mask).dim() == 3 and not same_size(value(mask).shape[2], 1)
    while widened and mask.target in (*CASTS, aten.expand.default, aten.expand_as.default):
        source = mask.args[0]
        if not isinstance(source, Node) or value(source).dim() != 3:
            break
        mask = source
        if same_size(value(mask).shape[2], 1):
            return mask
    return mask


_FLAT = shared(call(aten.unsqueeze.default, tensor("mask"), anything("new")))
_COUNT = call(aten.sum.dim_IntList, tensor("mask"), anything("over_mask"), True)


@register
class MaskedPooling(Kernel):
    name = "masked_pooling"
    schema = "(Tensor x, Tensor mask, float eps, float? floor) -> Tensor"
    tolerances = rows.TOLERANCES
    reasons: ClassVar[dict[str, str]] = {
        "narrow_loads": (
            "The loop walks the steps of a sequence and the mask is one byte a step: neither is wider than a step."
        ),
    }
    breadth = 4
    patterns: ClassVar[dict[str, Any]] = {
        "sum(x * m, 1) / sum(m, 1), m = mask.unsqueeze(-1)": _mean(
            _sum(tensor("mask")), call(aten.sum.dim_IntList, tensor("mask"), anything("over_wide"))
        ),
        "sum(x * mask.unsqueeze(-1), 1) / mask.sum(1, keepdim=True)": _mean(_sum(_FLAT), _COUNT),
        "einsum('bl,bld->bd', mask, x) / mask.sum(1, keepdim=True)": _mean(
            einsum("bl,bld->bd", tensor("mask"), tensor("x")), _COUNT
        ),
        "bmm(mask.unsqueeze(1), x).squeeze(1) / mask.sum(1, keepdim=True)": _mean(
            call(
                aten.squeeze.dim,
                call(
                    (aten.bmm.default, aten.matmul.default),
                    shared(call(aten.unsqueeze.default, tensor("mask"), 1)),
                    tensor("x"),
                ),
                1,
            ),
            _COUNT,
        ),
    }

    def arguments(self, found: Found) -> tuple[Any, ...] | str:
        x = value(found["x"])
        if x.dim() != 3 or not is_dim(found.get("over_x", 1), 1, 3):
            return "the sum is not over the steps (dimension 1) of [batch, steps, width]"
        rank = 3 if "over_wide" in found.values else 2
        if value(found["mask"]).dim() != rank or not is_dim(found.get("over_wide", found.get("over_mask")), 1, rank):
            return "the mask is summed over another dimension"
        if not is_dim(found.get("new", -1), 2, 3):
            return "the mask is not along the steps"
        if value(found["mask"]).dtype not in (x.dtype, torch.bool):
            return f"the mask has dtype {value(found['mask']).dtype}, x {x.dtype}: their product is rounded elsewhere"
        mask = _before_widening(found["mask"])
        return found["x"], mask, float(found.get("eps", 0.0)), found.get("floor")

    def reference(self, x: Tensor, mask: Tensor, eps: float, floor: float | None) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        weights = (mask if mask.dim() == 3 else mask.unsqueeze(-1)).to(wide.dtype)
        count = weights.sum(1) + eps
        if floor is not None:
            count = count.clamp(min=floor)
        return ((wide * weights).sum(1) / count).to(x.dtype)

    def fake(self, x: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        return (torch.empty((x.shape[0], x.shape[2]), dtype=x.dtype, device=x.device),)

    def configurations(self, x: Tensor, *rest: Any) -> tuple[Configuration, ...]:
        columns = min(256, power_of_two(x.shape[-1]))
        few = max(1, 512 // columns)
        return (configuration(ROWS=few, COLUMNS=columns), configuration(ROWS=1, COLUMNS=max(1, columns // 2)))

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        x, mask, eps, floor = args
        batch, length, width = x.shape
        if not batch or not width:
            return []
        if mask.dtype == torch.bool:
            mask = mask.to(torch.int8)
        constants = {"HAS_FLOOR": floor is not None, **configuration.constants}
        grid = (ceil_div(batch, configuration["ROWS"]), ceil_div(width, configuration["COLUMNS"]))
        given = (x.contiguous(), mask.contiguous(), *outputs, batch, length, width, eps, float(floor or 0.0))
        return [Launch(_kernel, grid, given, constants, configuration.num_warps)]

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        return [
            Sample("bool mask", (normal(5, 7, 23, dtype=dtype), coins(5, 7), 1e-3, None)),
            Sample("weights", (normal(3, 4, 64, dtype=dtype), normal(3, 4, 1, dtype=dtype).abs(), 0.0, 1.0)),
            Sample("wide", (normal(2, 3, 300, dtype=dtype), coins(2, 3, seed=3).to(dtype), 1e-3, None)),
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        x = normal(3, 4, 5, dtype=dtype)
        return [
            Sample("all padding", (x, torch.zeros(3, 4, dtype=torch.bool), 0.0, 1.0)),
            Sample("nothing divided by nothing", (x, torch.zeros(3, 4, dtype=torch.bool), 0.0, None)),
            Sample("no padding", (x, torch.ones(3, 4, dtype=torch.bool), 0.0, None)),
            Sample("no steps", (x[:, :0], torch.ones(3, 0, dtype=torch.bool), 1.0, None)),
            Sample("transposed", (normal(3, 5, 4, dtype=dtype).transpose(1, 2), coins(3, 4), 1.0, None)),
            Sample("nothing", (x[:0], torch.ones(0, 4, dtype=torch.bool), 0.0, 1.0)),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        return Sample("4096x50x64", (meta(4096, 50, 64, dtype=dtype), meta(4096, 50, dtype=torch.bool), 0.0, 1.0))

    def check(self, x: Tensor, mask: Tensor, eps: float, floor: float | None) -> str | None:
        if x.dtype not in rows.FLOATS:
            return f"the dtype is {x.dtype}, not a floating point one"
        if x.dim() != 3:
            return f"x has {x.dim()} dimensions, not batch, steps and width"
        flat = mask.dim() == 2 or (mask.dim() == 3 and same_size(mask.shape[2], 1))
        if not flat or not all(same_size(a, b) for a, b in zip(mask.shape[:2], x.shape[:2], strict=True)):
            return f"the mask {tuple(mask.shape)} is not one weight for each step of x {tuple(x.shape)}"
        return None if not mask.dtype.is_complex else "the mask is complex"

    def cost(self, x: Tensor, mask: Tensor, eps: float, floor: float | None) -> Cost:
        batch, _, width = x.shape
        moved = (x.numel() + batch * width) * x.element_size() + mask.numel() * mask.element_size()
        return Cost(bytes=moved, flops=2 * x.numel() + mask.numel() + batch * width)
