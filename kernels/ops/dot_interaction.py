"""DLRM's interaction: the dot products of chosen pairs of a sample's vectors, without the full matrix of products.

    out[b, p] = sum over d of x[b, first[p], d] * x[b, second[p], d]

Accumulated in float32 and rounded once. `first` and `second` usually are the lower triangle's indices.

Source: Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation Systems", 2019
(arXiv 1906.00091).
Not for: pairs that differ from sample to sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from kernels import products, rows
from kernels.inputs import integers, meta, normal
from kernels.patterns import Found, anything, aten, call, is_dim, mul, tensor
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
from kernels.spellings import einsum, swapped

tl: Any = None  # triton.language: `jit` sets it


def _kernel(  # type: ignore[no-untyped-def]
    x_ptr, first_ptr, second_ptr, out_ptr, fields, width, pairs, PAIRS: tl.constexpr, COLUMNS: tl.constexpr
):
    sample = tl.program_id(0).to(tl.int64)  # int64: an offset may pass 2**31
    pair = tl.program_id(1) * PAIRS + tl.arange(0, PAIRS)
    column = tl.arange(0, COLUMNS)[None, :]
    one = tl.load(first_ptr + pair, mask=pair < pairs, other=0)
    two = tl.load(second_ptr + pair, mask=pair < pairs, other=0)
    one = tl.where(one < 0, one + fields, one)
    two = tl.where(two < 0, two + fields, two)
    found = tl.zeros((PAIRS,), tl.float32)
    for first in range(0, width, COLUMNS):
        here = first + column
        mask = (pair < pairs)[:, None] & (here < width)
        a = tl.load(x_ptr + (sample * fields + one)[:, None] * width + here, mask=mask, other=0.0).to(tl.float32)
        b = tl.load(x_ptr + (sample * fields + two)[:, None] * width + here, mask=mask, other=0.0).to(tl.float32)
        found += tl.sum(a * b, axis=1)
    tl.store(out_ptr + sample * pairs + pair, found.to(out_ptr.dtype.element_ty), mask=pair < pairs)


_PAIRS = [None, tensor("first"), tensor("second")]


@register
class DotInteraction(Kernel):
    name = "dot_interaction"
    schema = "(Tensor x, Tensor first, Tensor second) -> Tensor"
    tolerances = products.TOLERANCES
    breadth = 3
    patterns: ClassVar[dict[str, Any]] = {
        "bmm(x, x.T)[:, i, j]": call(
            aten.index.Tensor,
            call((aten.bmm.default, aten.matmul.default), tensor("x"), swapped(tensor("x"), 1, 2, 3)),
            _PAIRS,
        ),
        "einsum(x, x)[:, i, j]": call(aten.index.Tensor, einsum("bid,bjd->bij", tensor("x"), tensor("x")), _PAIRS),
        "sum(x[:, i] * x[:, j], -1)": call(
            aten.sum.dim_IntList,
            mul(
                call(aten.index.Tensor, tensor("x"), [None, tensor("first")]),
                call(aten.index.Tensor, tensor("x"), [None, tensor("second")]),
            ),
            anything("summed"),
        ),
    }

    def arguments(self, found: Found) -> tuple[Any, ...] | str:
        if not is_dim(found.get("summed", -1), 2, 3):
            return "the products are not summed over the width"
        return found["x"], found["first"], found["second"]

    def reference(self, x: Tensor, first: Tensor, second: Tensor) -> Tensor:
        return torch.bmm(x, x.transpose(1, 2))[:, first, second]

    def fake(self, x: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, ...]:
        return (torch.empty((x.shape[0], first.shape[0]), dtype=x.dtype, device=x.device),)

    def configurations(self, x: Tensor, *rest: Any) -> tuple[Configuration, ...]:
        columns = min(128, power_of_two(x.shape[-1]))
        return (configuration(PAIRS=64, COLUMNS=columns), configuration(PAIRS=16, COLUMNS=max(1, columns // 2)))

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        x, first, second = args
        batch, fields, width = x.shape
        pairs = first.shape[0]
        if not batch or not pairs:
            return []
        grid = (batch, ceil_div(pairs, configuration["PAIRS"]))
        given = (x.contiguous(), first.contiguous(), second.contiguous(), *outputs, fields, width, pairs)
        return [Launch(_kernel, grid, given, configuration.constants, configuration.num_warps)]

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        below = torch.tril_indices(9, 9, -1)
        some = integers(2, 70, below=4, seed=5)
        return [
            Sample("lower triangle", (normal(3, 9, 16, dtype=dtype), below[0], below[1])),
            Sample("any pairs", (normal(2, 4, 5, dtype=dtype), some[0], some[1])),
            Sample("wide", (normal(2, 3, 200, dtype=dtype), torch.tensor([1, 2, 2]), torch.tensor([0, 0, 1]))),
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        x, none = normal(2, 3, 4, dtype=dtype), torch.zeros(0, dtype=torch.int64)
        return [
            Sample("from behind", (x, torch.tensor([-1, 0]), torch.tensor([0, -3]))),
            Sample("with itself", (x, torch.tensor([1]), torch.tensor([1]))),
            Sample("no pairs", (x, none, none)),
            Sample("transposed", (x.transpose(1, 2), torch.tensor([3]), torch.tensor([1]))),
            Sample("nothing", (x[:0], torch.tensor([1]), torch.tensor([0]))),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        pairs = meta(351, dtype=torch.int64)
        return Sample("4096x27x128", (meta(4096, 27, 128, dtype=dtype), pairs, pairs))

    def check(self, x: Tensor, first: Tensor, second: Tensor) -> str | None:
        if x.dtype not in rows.FLOATS:
            return f"the dtype is {x.dtype}, not a floating point one"
        if x.dim() != 3:
            return f"x has {x.dim()} dimensions, not batch, fields and width"
        if first.dtype != torch.int64 or second.dtype != torch.int64:
            return f"the pairs are {first.dtype} and {second.dtype}, not int64 indices"
        return None if first.dim() == 1 and same_shape(first, second) else "the pairs are not two vectors of one length"

    def cost(self, x: Tensor, first: Tensor, second: Tensor) -> Cost:
        batch, _, width = x.shape
        pairs = first.shape[0]
        moved = (x.numel() + batch * pairs) * x.element_size() + 16 * pairs
        return Cost(bytes=moved, flops=2 * batch * pairs * width)
