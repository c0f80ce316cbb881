"""One vector for each of several features out of one table that holds them all: a single launch for all features.

    out[..., f, :] = table[ids[..., f] + row_offsets[f]]

row_offsets says where each feature's rows begin, as the pass `merge_embedding_tables` lays them out. Copies, so that
the result is exact. Backward adds each row's gradients up.

Source: the consolidated lookup of table-batched embeddings, Khudia et al., "FBGEMM", 2021 (arXiv 2101.05615), and
Mudigere et al., "Software-Hardware Co-design for Fast and Scalable Training of DLRMs", 2022 (arXiv 2104.05158).
Not for: ids beyond the table (nothing checks them on a GPU), or tables of different widths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import Node

from kernels import rows
from kernels.inputs import integers, meta, normal
from kernels.patterns import Found, add, anything, aten, call, flat, shared, tensor, value
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

tl: Any = None  # triton.language: `jit` sets it


def _kernel(  # type: ignore[no-untyped-def]
    table_ptr, ids_ptr, offsets_ptr, out_ptr, count, features, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)  # int64: an offset may pass 2**31
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = row < count
    place = tl.load(ids_ptr + row, mask=inside, other=0).to(tl.int64)
    place += tl.load(offsets_ptr + row % features, mask=inside, other=0).to(tl.int64)
    mask = inside[:, None] & (column < width)
    found = tl.load(table_ptr + place[:, None] * width + column, mask=mask)
    tl.store(out_ptr + row[:, None] * width + column, found, mask=mask)


def _is_row(node: Node) -> bool:
    return all(isinstance(size, int) and size == 1 for size in value(node).shape[:-1])


@register
class EmbeddingLookup(Kernel):
    name = "embedding_lookup"
    schema = "(Tensor table, Tensor ids, Tensor row_offsets) -> Tensor"
    tolerances = rows.EXACT
    breadth = 2
    patterns: ClassVar[dict[str, Any]] = {
        "embedding(table, ids + row_offsets)": call(
            aten.embedding.default,
            tensor("table"),
            shared(add(tensor("ids"), tensor("row_offsets"))),
            padding_idx=anything(),  # says what is not trained
            sparse=anything(),
        )
    }

    def arguments(self, found: Found) -> tuple[Any, ...] | str:
        ids, offsets = found["ids"], found["row_offsets"]
        if _is_row(ids) and not _is_row(offsets):  # the sum was written the other way round
            ids, offsets = offsets, ids
        return found["table"], ids, flat(offsets)

    def reference(self, table: Tensor, ids: Tensor, row_offsets: Tensor) -> Tensor:
        return F.embedding(ids + row_offsets, table)

    def fake(self, table: Tensor, ids: Tensor, row_offsets: Tensor) -> tuple[Tensor, ...]:
        return (torch.empty((*ids.shape, table.shape[1]), dtype=table.dtype, device=table.device),)

    def configurations(self, table: Tensor, *rest: Any) -> tuple[Configuration, ...]:
        columns = min(512, power_of_two(table.shape[-1]))
        few = max(1, 1024 // columns)
        return (configuration(ROWS=few, COLUMNS=columns), configuration(ROWS=few * 2, COLUMNS=max(1, columns // 2)))

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        table, ids, offsets = args
        count, width = ids.numel(), table.shape[1]
        if not count or not width:
            return []
        grid = (ceil_div(count, configuration["ROWS"]), ceil_div(width, configuration["COLUMNS"]))
        given = (table.contiguous(), ids.contiguous(), offsets.contiguous(), *outputs, count, offsets.shape[0], width)
        return [Launch(_kernel, grid, given, configuration.constants, configuration.num_warps)]

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        offsets = torch.tensor([0, 4, 9])
        return [
            Sample("5x3 of 7", (normal(14, 7, dtype=dtype), integers(5, 3, below=4), offsets)),
            Sample("2x4x3 of 16", (normal(14, 16, dtype=dtype), integers(2, 4, 3, below=4), offsets)),
            Sample("9x3 of 600", (normal(14, 600, dtype=dtype), integers(9, 3, below=4), offsets)),
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        table = normal(6, 5, dtype=dtype)
        return [
            Sample("equal ids", (table, torch.zeros(7, 2, dtype=torch.int64), torch.tensor([0, 5]))),
            Sample("the last row", (table, torch.full((2, 1), 5), torch.tensor([0]))),
            Sample("int32 ids", (table, integers(3, 2, below=3).int(), torch.tensor([0, 3]))),
            Sample("a transposed table", (normal(5, 6, dtype=dtype).T, integers(3, 2, below=3), torch.tensor([0, 3]))),
            Sample("nothing", (table, integers(0, 2, below=1), torch.tensor([0, 3]))),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        ids, offsets = meta(8192, 26, dtype=torch.int64), meta(26, dtype=torch.int64)
        return Sample("8192x26 of 64", (meta(10_000_000, 64, dtype=dtype), ids, offsets))

    def check(self, table: Tensor, ids: Tensor, row_offsets: Tensor) -> str | None:
        if table.dtype not in rows.FLOATS or table.dim() != 2:
            return f"the table is {table.dtype} of {table.dim()} dimensions, not rows of floats"
        if ids.dtype not in (torch.int64, torch.int32) or row_offsets.dtype not in (torch.int64, torch.int32):
            return f"the ids are {ids.dtype}, their offsets {row_offsets.dtype}"
        if row_offsets.dim() != 1 or ids.dim() < 1 or not same_size(row_offsets.shape[0], ids.shape[-1]):
            return f"offsets {tuple(row_offsets.shape)} are not one for each feature of ids {tuple(ids.shape)}"
        return None

    def cost(self, table: Tensor, ids: Tensor, row_offsets: Tensor) -> Cost:
        moved = 2 * ids.numel() * table.shape[1] * table.element_size()  # as if no two ids were equal
        moved += ids.numel() * ids.element_size() + row_offsets.numel() * row_offsets.element_size()
        return Cost(bytes=moved, flops=0)
