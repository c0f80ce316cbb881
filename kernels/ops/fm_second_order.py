"""The second-order term of a factorisation machine, without its intermediate tensors.

    out[b] = 0.5 * sum over d of ((sum over f of x[b, f, d]) ** 2 - sum over f of x[b, f, d] ** 2)

which is the sum of the dot products of all pairs of the fields' vectors. Computed in float32 (float64 for float64
inputs) and rounded once.

Source: Rendle, "Factorization Machines", 2010 (ICDM), Lemma 3.1.
Not for: one value per embedding dimension (the bi-interaction layer of NFM).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from kernels import rows
from kernels.inputs import meta, normal
from kernels.patterns import Found, anything, aten, call, either, is_dim, mul, sub, tensor, value
from kernels.spec import (
    Configuration,
    Cost,
    Kernel,
    Launch,
    Sample,
    Tolerance,
    ceil_div,
    configuration,
    power_of_two,
    register,
)
from kernels.spellings import squared

tl: Any = None  # triton.language: `jit` sets it


def _kernel(  # type: ignore[no-untyped-def]
    x_ptr, out_ptr, batch, fields, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)  # int64: an offset may pass 2**31
    column = tl.arange(0, COLUMNS)[None, :]
    found = tl.zeros((ROWS,), tl.float32)
    for first in range(0, width, COLUMNS):
        here = first + column
        mask = (row < batch)[:, None] & (here < width)
        total = tl.zeros((ROWS, COLUMNS), tl.float32)
        squares = tl.zeros((ROWS, COLUMNS), tl.float32)
        for field in range(0, fields):
            at = (row[:, None] * fields + field) * width + here
            x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
            total += x
            squares += x * x
        found += tl.sum(total * total - squares, axis=1)
    tl.store(out_ptr + row, (0.5 * found).to(out_ptr.dtype.element_ty), mask=row < batch)


def _sum(x: Any, name: str) -> Any:
    return call(aten.sum.dim_IntList, x, anything(f"dim_{name}"), anything(f"keep_{name}"))


_PAIRS = sub(squared(_sum(tensor("x"), "inner")), _sum(squared(tensor("x")), "squares"))


@register
class FmSecondOrder(Kernel):
    name = "fm_second_order"
    schema = "(Tensor x, bool keepdim) -> Tensor"
    # the two terms cancel: the error is that of their size
    tolerances: ClassVar[dict[torch.dtype, Tolerance]] = {
        dtype: Tolerance(t.absolute * 8, t.relative) for dtype, t in rows.TOLERANCES.items()
    }
    reasons: ClassVar[dict[str, str]] = {
        "narrow_loads": (
            "A field's vector is short (16 at the typical size): a tile is one field of several rows, which "
            "do not lie beside one another."
        ),
    }
    breadth = 6
    patterns: ClassVar[dict[str, Any]] = {
        "0.5 * sum(sum(x) ** 2 - sum(x ** 2))": either(
            mul(_sum(_PAIRS, "outer"), 0.5),
            call(aten.div.Tensor, _sum(_PAIRS, "outer"), 2),
        ),
        "sum(0.5 * (sum(x) ** 2 - sum(x ** 2)))": _sum(
            either(mul(_PAIRS, 0.5), call(aten.div.Tensor, _PAIRS, 2)), "outer"
        ),
    }

    def arguments(self, found: Found) -> tuple[Any, ...] | str:
        x = value(found["x"])
        if x.dim() != 3:
            return f"x has {x.dim()} dimensions, not batch, fields and width"
        if not (is_dim(found["dim_inner"], 1, 3) and is_dim(found["dim_squares"], 1, 3)):
            return "the inner sums are not over the fields (dimension 1)"
        if found["keep_inner"] != found["keep_squares"]:
            return "one inner sum keeps its dimension, the other does not"
        left = 3 if found["keep_inner"] else 2
        if not is_dim(found["dim_outer"], -1, left):
            return "the outer sum is not over the last dimension"
        if found["keep_inner"] and found["keep_outer"]:
            return "the result keeps two dimensions of size 1"
        return found["x"], bool(found["keep_inner"] or found["keep_outer"])

    def reference(self, x: Tensor, keepdim: bool) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        pairs = wide.sum(1).square() - wide.square().sum(1)
        found = (0.5 * pairs.sum(-1)).to(x.dtype)
        return found.unsqueeze(-1) if keepdim else found

    def fake(self, x: Tensor, keepdim: bool) -> tuple[Tensor, ...]:
        return (torch.empty((x.shape[0], 1) if keepdim else (x.shape[0],), dtype=x.dtype, device=x.device),)

    def configurations(self, x: Tensor, *rest: Any) -> tuple[Configuration, ...]:
        columns = min(256, power_of_two(x.shape[-1]))
        few = max(1, 512 // columns)
        return (
            configuration(ROWS=few, COLUMNS=columns),
            configuration(num_warps=2, ROWS=max(1, few // 2), COLUMNS=max(1, columns // 2)),
        )

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        x, _ = args
        batch, fields, width = x.shape
        if not batch:
            return []
        grid = (ceil_div(batch, configuration["ROWS"]),)
        given = (x.contiguous(), *outputs, batch, fields, width)
        return [Launch(_kernel, grid, given, configuration.constants, configuration.num_warps)]

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        return [
            Sample("5x3x7", (normal(5, 3, 7, dtype=dtype), True)),
            Sample("33x4x16 flat", (normal(33, 4, 16, dtype=dtype, scale=0.3), False)),
            Sample("2x5x300", (normal(2, 5, 300, dtype=dtype, scale=0.1), True)),
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        x = normal(3, 2, 5, dtype=dtype)
        return [
            Sample("one field has no pairs", (x[:, :1].contiguous(), True)),
            Sample("zeros", (torch.zeros_like(x), False)),
            Sample("transposed", (normal(3, 5, 2, dtype=dtype).transpose(1, 2), True)),
            Sample("nothing", (x[:0], True)),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        return Sample("8192x39x16", (meta(8192, 39, 16, dtype=dtype), True))

    def check(self, x: Tensor, keepdim: bool) -> str | None:
        if x.dtype not in rows.FLOATS:
            return f"the dtype is {x.dtype}, not a floating point one"
        return None if x.dim() == 3 else f"x has {x.dim()} dimensions, not batch, fields and width"

    def cost(self, x: Tensor, keepdim: bool) -> Cost:
        batch, _, width = x.shape
        return Cost(bytes=(x.numel() + batch) * x.element_size(), flops=3 * x.numel() + 3 * batch * width)
