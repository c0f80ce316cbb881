"""A padded batch becomes sequences laid end to end.

    out[offsets[b] + l] = padded[b, l] for l < offsets[b + 1] - offsets[b], 0 where the padding was too short

Copies, so that the result is exact. `padded[mask]` is not recognised: its graph holds neither the offsets nor, before
it runs, the number of values.

Source: the jagged tensors of Ivchenko et al., "TorchRec: a PyTorch Domain Library for Recommendation Systems", 2022
(RecSys).
Not for: offsets that do not ascend from 0 to `total`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from kernels import rows
from kernels.inputs import meta, normal
from kernels.inputs import offsets as offsets_of
from kernels.patterns import Found, aten, call, number, tensor
from kernels.spec import Configuration, Cost, Kernel, Launch, Sample, ceil_div, configuration, power_of_two, register

tl: Any = None  # triton.language: `jit` sets it


def _kernel(  # type: ignore[no-untyped-def]
    padded_ptr, offsets_ptr, out_ptr, length, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    sample = tl.program_id(0).to(tl.int64)  # int64: an offset may pass 2**31
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    begin = tl.load(offsets_ptr + sample).to(tl.int64)
    end = tl.load(offsets_ptr + sample + 1).to(tl.int64)
    for first in range(0, end - begin, ROWS):
        step = first + tl.arange(0, ROWS)
        there = (step < length)[:, None] & (column < width)
        values = tl.load(padded_ptr + (sample * length + step)[:, None] * width + column, mask=there, other=0.0)
        mask = (begin + step < end)[:, None] & (column < width)
        tl.store(out_ptr + (begin + step)[:, None] * width + column, values, mask=mask)


@register
class PaddedToJagged(Kernel):
    name = "padded_to_jagged"
    schema = "(Tensor padded, Tensor offsets, int total) -> Tensor"
    tolerances = rows.EXACT
    patterns: ClassVar[dict[str, Any]] = {
        "aten._padded_dense_to_jagged_forward": call(
            aten._padded_dense_to_jagged_forward.default, tensor("padded"), [tensor("offsets")], number("total")
        )
    }

    def arguments(self, found: Found) -> tuple[Any, ...] | str:
        return found["padded"], found["offsets"], found["total"]

    def reference(self, padded: Tensor, offsets: Tensor, total: int) -> Tensor:
        place = torch.arange(total, device=padded.device)
        sample = torch.searchsorted(offsets.contiguous(), place.to(offsets.dtype), right=True) - 1
        step = place - offsets[sample]
        if padded.shape[1] == 0:
            return padded.new_zeros((total, padded.shape[2])) + padded.sum()
        found = padded[sample, step.clamp(max=padded.shape[1] - 1)]
        return torch.where((step < padded.shape[1]).unsqueeze(-1), found, 0.0)

    def fake(self, padded: Tensor, offsets: Tensor, total: int) -> tuple[Tensor, ...]:
        return (torch.empty((total, padded.shape[2]), dtype=padded.dtype, device=padded.device),)

    def configurations(self, padded: Tensor, *rest: Any) -> tuple[Configuration, ...]:
        columns = min(256, power_of_two(padded.shape[-1]))
        few = max(1, 1024 // columns)
        return (configuration(ROWS=few, COLUMNS=columns), configuration(ROWS=2, COLUMNS=max(1, columns // 2)))

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        padded, offsets, total = args
        batch, length, width = padded.shape
        if not total or not width:
            return []
        grid = (batch, ceil_div(width, configuration["COLUMNS"]))
        given = (padded.contiguous(), offsets.contiguous(), *outputs, length, width)
        return [Launch(_kernel, grid, given, configuration.constants, configuration.num_warps)]

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        return [
            Sample("ragged", (normal(4, 5, 7, dtype=dtype), offsets_of(2, 0, 5, 2), 9)),
            Sample("shorter than it was", (normal(4, 3, 7, dtype=dtype), offsets_of(2, 0, 5, 2), 9)),
            Sample("wide", (normal(2, 4, 300, dtype=dtype), offsets_of(1, 4), 5)),
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        return [
            Sample("all empty", (normal(2, 3, 4, dtype=dtype), offsets_of(0, 0), 0)),
            Sample("one sequence", (normal(1, 6, 1, dtype=dtype), offsets_of(6), 6)),
            Sample("int32 offsets", (normal(2, 2, 4, dtype=dtype), offsets_of(1, 2).int(), 3)),
            Sample("transposed", (normal(2, 4, 3, dtype=dtype).transpose(1, 2), offsets_of(1, 2), 3)),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        return Sample(
            "4096 of up to 200, width 64", (meta(4096, 200, 64, dtype=dtype), meta(4097, dtype=torch.int64), 400_000)
        )

    def check(self, padded: Tensor, offsets: Tensor, total: int) -> str | None:
        return rows.why_not_jagged(padded, offsets, 3)

    def cost(self, padded: Tensor, offsets: Tensor, total: int) -> Cost:
        moved = 2 * total * padded.shape[2] * padded.element_size()
        return Cost(bytes=moved + offsets.numel() * offsets.element_size(), flops=0)
