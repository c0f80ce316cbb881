"""Softmax within each of several sequences laid end to end, column by column.

    out[i, h] = exp(values[i, h] - m) / sum over j in i's sequence of exp(values[j, h] - m),  m the sequence's maximum

Computed in float32 (float64 for float64 inputs) and rounded once. A softmax of the padded batch is not recognised: it
leaves out what is longer than the padding.

Source: the jagged softmax of Khudia et al., "FBGEMM", 2021 (arXiv 2101.05615); Milakov and Gimelshein, "Online
normalizer calculation for softmax", 2018 (arXiv 1805.02867).
Not for: offsets that do not ascend from 0 to the number of values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from kernels import jagged, rows
from kernels.inputs import meta, normal
from kernels.inputs import offsets as offsets_of
from kernels.patterns import Found, Pattern, anything, aten, call, either, named, shared, sub, tensor, value, value_of
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
from kernels.spellings import column

tl: Any = None  # triton.language: `jit` sets it


def _kernel(  # type: ignore[no-untyped-def]
    values_ptr, offsets_ptr, out_ptr, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    sample = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    begin = tl.load(offsets_ptr + sample).to(tl.int64)  # int64: an offset may pass 2**31
    end = tl.load(offsets_ptr + sample + 1).to(tl.int64)
    largest = tl.full((COLUMNS,), float("-inf"), tl.float32)
    total = tl.zeros((COLUMNS,), tl.float32)
    for first in range(0, end - begin, ROWS):
        row = (begin + first + tl.arange(0, ROWS))[:, None]
        mask = (row < end) & (column < width)
        x = tl.load(values_ptr + row * width + column, mask=mask, other=float("-inf")).to(tl.float32)
        larger = tl.maximum(largest, tl.max(x, axis=0))
        base = tl.where(larger == float("-inf"), 0.0, larger)  # else -inf - -inf in columns beyond the width
        total = total * tl.exp(largest - base) + tl.sum(tl.exp(x - base[None, :]), axis=0)
        largest = larger
    base = tl.where(largest == float("-inf"), 0.0, largest)
    total = tl.where(column < width, total[None, :], 1.0)
    for first in range(0, end - begin, ROWS):
        row = (begin + first + tl.arange(0, ROWS))[:, None]
        mask = (row < end) & (column < width)
        x = tl.load(values_ptr + row * width + column, mask=mask, other=float("-inf")).to(tl.float32)
        out = tl.exp(x - base[None, :]) / total
        tl.store(out_ptr + row * width + column, out.to(out_ptr.dtype.element_ty), mask=mask)


_OWN = named("own", jagged.sequence_of_each())
_INDEX = either(
    shared(call(aten.expand.default, column(_OWN), anything())),
    shared(call(aten.expand_as.default, column(_OWN), anything())),
)


def _given_back(x: Pattern) -> Pattern:
    """What belongs to a sequence, for each of its values."""
    return either(call(aten.index.Tensor, x, [_OWN]), call(aten.gather.default, x, 0, _INDEX))


_LARGEST = call(
    aten.scatter_reduce.two,
    jagged.filled("lowest", float("-inf")),
    0,
    _INDEX,
    tensor("values"),
    "amax",
    include_self=anything(),
)
_RAISED = named("raised", call(aten.exp.default, sub(tensor("values"), _given_back(_LARGEST))))
_TOTAL = either(
    call(aten.index_add.default, jagged.filled("zeros", 0), 0, _OWN, _RAISED),
    call(aten.scatter_add.default, jagged.filled("zeros", 0), 0, _INDEX, _RAISED),
)


@register
class JaggedSoftmax(Kernel):
    name = "jagged_softmax"
    schema = "(Tensor values, Tensor offsets) -> Tensor"
    tolerances = rows.TOLERANCES
    breadth = 5
    patterns: ClassVar[dict[str, Any]] = {
        "exp(values - largest[sequence]) / total[sequence], by scatter_reduce and index_add": call(
            aten.div.Tensor, _RAISED, _given_back(_TOTAL)
        )
    }
    reasons: ClassVar[dict[str, str]] = {
        "narrow_loads": (
            "At the typical size a row has 8 values, which 16 does not divide: the compiler cannot prove that "
            "several values lie aligned, and takes them one by one."
        ),
    }

    def arguments(self, found: Found) -> tuple[Any, ...] | str:
        values, offsets = found["values"], jagged.offsets_of(found)
        sequences, width = value_of(offsets).shape[0] - 1, value(values).shape[-1]
        for beside in (value(found["lowest"]), value(found["zeros"])):
            if beside.dim() != 2 or not (same_size(beside.shape[0], sequences) and same_size(beside.shape[1], width)):
                return "the maxima and sums are not one row for each sequence"
        if not same_size(value(found["own"]).shape[0], value(values).shape[0]):
            return "there are more or fewer values than places in sequences"
        return values, offsets

    def reference(self, values: Tensor, offsets: Tensor) -> Tensor:
        wide = values.to(torch.promote_types(values.dtype, torch.float32))
        place = torch.arange(values.shape[0], device=values.device).to(offsets.dtype)
        sample = torch.searchsorted(offsets.contiguous(), place, right=True) - 1
        each = sample.unsqueeze(-1).expand_as(wide)
        empty = wide.new_full((offsets.shape[0] - 1, values.shape[1]), float("-inf"))
        largest = empty.scatter_reduce(0, each, wide.detach(), "amax")
        raised = torch.exp(wide - largest.gather(0, each))
        total = torch.zeros_like(empty).scatter_add(0, each, raised)
        return (raised / total.gather(0, each)).to(values.dtype)

    def fake(self, values: Tensor, offsets: Tensor) -> tuple[Tensor, ...]:
        return (torch.empty(values.shape, dtype=values.dtype, device=values.device),)

    def configurations(self, values: Tensor, *rest: Any) -> tuple[Configuration, ...]:
        columns = min(64, power_of_two(values.shape[-1]))
        few = max(16, 1024 // columns)
        return (configuration(ROWS=few, COLUMNS=columns), configuration(ROWS=2, COLUMNS=max(1, columns // 2)))

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        values, offsets = args
        width = values.shape[1]
        if not values.numel():
            return []
        grid = (offsets.shape[0] - 1, ceil_div(width, configuration["COLUMNS"]))
        given = (values.contiguous(), offsets.contiguous(), *outputs, width)
        return [Launch(_kernel, grid, given, configuration.constants, configuration.num_warps)]

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        return [
            Sample("ragged", (normal(9, 3, dtype=dtype), offsets_of(2, 0, 5, 2))),
            Sample("one column", (normal(70, 1, dtype=dtype), offsets_of(1, 69))),
            Sample("wide", (normal(5, 70, dtype=dtype), offsets_of(1, 4))),
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        x = normal(6, 2, dtype=dtype)
        return [
            Sample("large", (x * 100, offsets_of(4, 2))),
            Sample("equal", (torch.zeros_like(x), offsets_of(1, 5))),
            Sample("all empty", (x[:0], offsets_of(0, 0))),
            Sample("int32 offsets", (x, offsets_of(3, 3).int())),
            Sample("transposed", (normal(2, 6, dtype=dtype).T, offsets_of(4, 2))),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        return Sample("400,000 values of 4096, 8 heads", (meta(400_000, 8, dtype=dtype), meta(4097, dtype=torch.int64)))

    def check(self, values: Tensor, offsets: Tensor) -> str | None:
        return rows.why_not_jagged(values, offsets, 2)

    def cost(self, values: Tensor, offsets: Tensor) -> Cost:
        moved = 2 * values.numel() * values.element_size() + offsets.numel() * offsets.element_size()
        return Cost(bytes=moved, flops=4 * values.numel())
