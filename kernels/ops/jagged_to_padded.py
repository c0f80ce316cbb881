"""Sequences laid end to end become a padded batch.

    out[b, l] = values[offsets[b] + l] for l < offsets[b + 1] - offsets[b], else padding       (l < max_length)

What is longer than max_length is cut off. Copies, so that the result is exact.

Source: the jagged tensors of Ivchenko et al., "TorchRec: a PyTorch Domain Library for Recommendation Systems", 2022
(RecSys).
Not for: offsets that do not ascend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.fx import Node

from kernels import jagged, rows
from kernels.inputs import meta, normal
from kernels.inputs import offsets as offsets_of
from kernels.patterns import Found, add, anything, aten, call, either, named, number, shared, tensor, value
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
from kernels.spellings import behind, column

tl: Any = None  # triton.language: `jit` sets it


def _kernel(  # type: ignore[no-untyped-def]
    values_ptr, offsets_ptr, out_ptr, length, width, padding, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    sample = tl.program_id(0).to(tl.int64)  # int64: an offset may pass 2**31
    step = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    begin = tl.load(offsets_ptr + sample).to(tl.int64)
    end = tl.load(offsets_ptr + sample + 1).to(tl.int64)
    there = (begin + step < end)[:, None] & (column < width)
    values = tl.load(values_ptr + (begin + step)[:, None] * width + column, mask=there, other=0.0)
    values = tl.where(there, values, tl.cast(padding, values_ptr.dtype.element_ty))
    mask = (step < length)[:, None] & (column < width)
    tl.store(out_ptr + (sample * length + step)[:, None] * width + column, values, mask=mask)


_PLACE = named("place", add(jagged.starts(), jagged.counting("step")))
_TAKEN = call(aten.index.Tensor, tensor("values"), [call(aten.clamp.default, _PLACE, None, anything("last"))])
_THERE = behind(call(aten.lt.Tensor, _PLACE, jagged.ends()), 2)
_ROW = either(shared(call(aten.unsqueeze.default, jagged.counting("step"), 0)), jagged.counting("step"))
_MASK = shared(call(aten.lt.Tensor, _ROW, column(tensor("lengths"))))


def _is_last(bound: Any, values: Node) -> bool:
    return same_size(bound.meta["val"] if isinstance(bound, Node) else bound, value(values).shape[0] - 1)


@register
class JaggedToPadded(Kernel):
    name = "jagged_to_padded"
    schema = "(Tensor values, Tensor offsets, int max_length, float padding) -> Tensor"
    tolerances = rows.EXACT
    breadth = 3
    patterns: ClassVar[dict[str, Any]] = {
        "aten._jagged_to_padded_dense_forward": call(
            aten._jagged_to_padded_dense_forward.default,
            tensor("values"),
            [tensor("offsets")],
            [number("length")],
            number("padding"),
        ),
        "where(place < offsets[1:], values[place], padding), place = offsets[:-1] + arange": call(
            aten.where.ScalarOther, _THERE, _TAKEN, number("padding")
        ),
        "zeros[arange < lengths] = values": call(
            aten.index_put.default, jagged.filled("zeros", 0), [_MASK], tensor("values")
        ),
    }

    def arguments(self, found: Found) -> tuple[Any, ...] | str:
        values = found["values"]
        if "last" in found.values and not _is_last(found["last"], values):
            return "the places are not bounded by the number of values"
        if "lengths" in found.values and value(values).shape[0] == 1:
            return "one row is written to all places"
        length = found["length"] if "length" in found.values else value(found["step"]).shape[0]
        if not isinstance(length, int):
            return "the padded length is not fixed"
        return values, jagged.offsets_of(found), length, float(found.get("padding", 0.0))

    def reference(self, values: Tensor, offsets: Tensor, max_length: int, padding: float) -> Tensor:
        step = torch.arange(max_length, device=values.device)
        place = offsets[:-1, None] + step
        there = (place < offsets[1:, None]).unsqueeze(-1)
        if values.shape[0] == 0:  # nothing to take from, so nothing there
            return values.new_full((offsets.shape[0] - 1, max_length, values.shape[1]), padding) + values.sum()
        return torch.where(there, values[place.clamp(max=values.shape[0] - 1)], padding)

    def fake(self, values: Tensor, offsets: Tensor, max_length: int, padding: float) -> tuple[Tensor, ...]:
        shape = (offsets.shape[0] - 1, max_length, values.shape[1])
        return (torch.empty(shape, dtype=values.dtype, device=values.device),)

    def configurations(self, values: Tensor, *rest: Any) -> tuple[Configuration, ...]:
        columns = min(256, power_of_two(values.shape[-1]))
        few = max(1, 1024 // columns)
        return (configuration(ROWS=few, COLUMNS=columns), configuration(ROWS=2, COLUMNS=max(1, columns // 2)))

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        values, offsets, max_length, padding = args
        batch, width = offsets.shape[0] - 1, values.shape[1]
        if not batch or not max_length or not width:
            return []
        steps, columns = ceil_div(max_length, configuration["ROWS"]), ceil_div(width, configuration["COLUMNS"])
        given = (values.contiguous(), offsets.contiguous(), *outputs, max_length, width, float(padding))
        return [Launch(_kernel, (batch, steps, columns), given, configuration.constants, configuration.num_warps)]

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        return [
            Sample("ragged", (normal(9, 7, dtype=dtype), offsets_of(2, 0, 5, 2), 5, 0.0)),
            Sample("cut and padded with -1", (normal(9, 7, dtype=dtype), offsets_of(2, 0, 5, 2), 3, -1.0)),
            Sample("wide", (normal(5, 300, dtype=dtype), offsets_of(1, 4), 6, 0.0)),
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        return [
            Sample("all empty", (normal(0, 4, dtype=dtype), offsets_of(0, 0), 3, 0.5)),
            Sample("one sequence", (normal(6, 1, dtype=dtype), offsets_of(6), 6, 0.0)),
            Sample("int32 offsets", (normal(3, 4, dtype=dtype), offsets_of(1, 2).int(), 2, 0.0)),
            Sample("no length", (normal(3, 4, dtype=dtype), offsets_of(1, 2), 0, 0.0)),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        return Sample(
            "4096 of up to 200, width 64", (meta(400_000, 64, dtype=dtype), meta(4097, dtype=torch.int64), 200, 0.0)
        )

    def check(self, values: Tensor, offsets: Tensor, max_length: int, padding: float) -> str | None:
        return rows.why_not_jagged(values, offsets, 2)

    def cost(self, values: Tensor, offsets: Tensor, max_length: int, padding: float) -> Cost:
        written = (offsets.shape[0] - 1) * max_length * values.shape[1]
        read = min(values.numel(), written)
        return Cost((read + written) * values.element_size() + offsets.numel() * offsets.element_size(), flops=0)
