"""Sums or means of a table's rows over bags of ids, without the rows in memory.

    out[b] = sum (or mean) over i in offsets[b] .. offsets[b + 1] of table[ids[i]],  0 for an empty bag

The last bag ends with the ids. Accumulated in float32 (float64 for float64 inputs) and rounded once.

Source: Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation Systems", 2019
(arXiv 1906.00091).
Not for: maxima, weights per id, a padding row, or ids beyond the table (nothing checks them on a GPU).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.fx import Node

from kernels import rows
from kernels.inputs import integers, meta, normal
from kernels.patterns import Made, arguments, aten
from kernels.spec import (
    Configuration,
    Cost,
    Kernel,
    Launch,
    Match,
    Mismatch,
    Sample,
    Tolerance,
    ceil_div,
    configuration,
    power_of_two,
    register,
)

tl: Any = None  # triton.language: `jit` sets it


def _kernel(  # type: ignore[no-untyped-def]
    table_ptr, ids_ptr, offsets_ptr, out_ptr, bags, count, width, MEAN: tl.constexpr, COLUMNS: tl.constexpr
):
    bag = tl.program_id(0).to(tl.int64)  # int64: an offset may pass 2**31
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    begin = tl.load(offsets_ptr + bag).to(tl.int64)
    end = tl.load(offsets_ptr + bag + 1, mask=bag + 1 < bags, other=count).to(tl.int64)
    found = tl.zeros((COLUMNS,), tl.float32)
    for i in range(begin, end):
        row = tl.load(ids_ptr + i).to(tl.int64)
        found += tl.load(table_ptr + row * width + column, mask=column < width, other=0.0).to(tl.float32)
    if MEAN:
        found = found / tl.maximum(end - begin, 1).to(tl.float32)
    tl.store(out_ptr + bag * width + column, found.to(out_ptr.dtype.element_ty), mask=column < width)


@register
class EmbeddingBag(Kernel):
    name = "embedding_bag"
    schema = "(Tensor table, Tensor ids, Tensor offsets, bool mean) -> Tensor"
    tolerances: ClassVar[dict[torch.dtype, Tolerance]] = {
        **rows.TOLERANCES,
        torch.float32: Tolerance(absolute=1e-5, relative=1e-5),
    }
    reasons: ClassVar[dict[str, str]] = {
        "narrow_loads": (
            "One program adds up one bag, row by row: a tile is a single row of the table, as wide as the embedding."
        ),
        "few_bytes_in_flight": (
            "One program adds up one bag, row by row, and each row's place hangs on its id: what is under way "
            "comes from many bags at once."
        ),
    }
    breadth = 2
    spellings = ("aten.embedding_bag with mode sum or mean",)

    def match(self, anchor: Node) -> Match | Mismatch | None:
        if anchor.target is not aten.embedding_bag.padding_idx:
            return None
        given = arguments(anchor)
        if given["mode"] not in (0, 1):
            return Mismatch("the bags take maxima", anchor)
        if given["per_sample_weights"] is not None:
            return Mismatch("the ids have weights of their own", anchor)
        if given["padding_idx"] not in (None, -1):
            return Mismatch("a row is padding", anchor)
        parts = {user.args[1]: user for user in anchor.users if user.target is operator.getitem}
        if len(parts) != len(anchor.users) or any(user.users for index, user in parts.items() if index != 0):
            return Mismatch("more than the bags themselves is used", anchor)
        if 0 not in parts:
            return None
        inside = (anchor, *[user for index, user in parts.items() if index != 0])
        offsets = given["offsets"]
        if given["include_last_offset"]:  # the last is the number of ids
            offsets = Made(aten.slice.Tensor, (offsets, 0, 0, -1))
        args = (given["weight"], given["indices"], offsets, given["mode"] == 1)
        return self.complete(args, (parts[0],), inside)

    def reference(self, table: Tensor, ids: Tensor, offsets: Tensor, mean: bool) -> Tensor:
        # by hand, for gradients of gradients and float16 on a CPU exist in this form
        wide = table.to(torch.promote_types(table.dtype, torch.float32))
        bag = torch.searchsorted(offsets.contiguous(), torch.arange(ids.shape[0], device=ids.device), right=True) - 1
        zeros = torch.zeros((offsets.shape[0], table.shape[1]), dtype=wide.dtype, device=table.device)
        found = zeros.index_add(0, bag, wide[ids])
        if mean:
            ends = torch.cat((offsets[1:], torch.full_like(offsets[:1], ids.shape[0])))
            found = found / (ends - offsets).clamp(min=1).unsqueeze(-1).to(wide.dtype)
        return found.to(table.dtype)

    def fake(self, table: Tensor, ids: Tensor, offsets: Tensor, mean: bool) -> tuple[Tensor, ...]:
        return (torch.empty((offsets.shape[0], table.shape[1]), dtype=table.dtype, device=table.device),)

    def configurations(self, table: Tensor, *rest: Any) -> tuple[Configuration, ...]:
        columns = min(1024, power_of_two(table.shape[-1], 32))
        return (configuration(num_warps=1, COLUMNS=columns), configuration(num_warps=2, COLUMNS=max(16, columns // 2)))

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        table, ids, offsets, mean = args
        bags, width = offsets.shape[0], table.shape[1]
        if not bags or not width:
            return []
        grid = (bags, ceil_div(width, configuration["COLUMNS"]))
        given = (table.contiguous(), ids.contiguous(), offsets.contiguous(), *outputs, bags, ids.shape[0], width)
        return [Launch(_kernel, grid, given, {"MEAN": mean, **configuration.constants}, configuration.num_warps)]

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        table, ids = normal(11, 7, dtype=dtype), integers(9, below=11)
        return [
            Sample("sums", (table, ids, torch.tensor([0, 2, 2, 5]), False)),
            Sample("means", (table, ids, torch.tensor([0, 2, 2, 5]), True)),
            Sample("wide", (normal(5, 1100, dtype=dtype), integers(4, below=5), torch.tensor([0, 1]), True)),
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        table, ids = normal(6, 5, dtype=dtype), integers(4, below=6)
        return [
            Sample("empty bags at both ends", (table, ids, torch.tensor([0, 0, 3, 4]), True)),
            Sample("one bag of equal ids", (table, torch.full((50,), 3), torch.tensor([0]), False)),
            Sample("int32", (table, ids.int(), torch.tensor([0, 2]).int(), False)),
            Sample("no ids", (table, ids[:0], torch.tensor([0, 0]), True)),
            Sample("no bags", (table, ids[:0], torch.zeros(0, dtype=torch.int64), False)),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        ids, offsets = meta(409_600, dtype=torch.int64), meta(8192, dtype=torch.int64)
        return Sample("8192 bags of 50, width 64", (meta(10_000_000, 64, dtype=dtype), ids, offsets, False))

    def check(self, table: Tensor, ids: Tensor, offsets: Tensor, mean: bool) -> str | None:
        if table.dtype not in rows.FLOATS or table.dim() != 2:
            return f"the table is {table.dtype} of {table.dim()} dimensions, not rows of floats"
        if ids.dtype not in (torch.int64, torch.int32) or offsets.dtype != ids.dtype:
            return f"the ids are {ids.dtype}, their offsets {offsets.dtype}"
        return None if ids.dim() == offsets.dim() == 1 else "the ids or the offsets are not a vector"

    def cost(self, table: Tensor, ids: Tensor, offsets: Tensor, mean: bool) -> Cost:
        width = table.shape[1]
        read = ids.shape[0] * width  # as if no two ids were equal
        moved = (read + offsets.shape[0] * width) * table.element_size()
        return Cost(moved + ids.numel() * ids.element_size() + offsets.numel() * offsets.element_size(), flops=read)
