"""One step of row-wise Adagrad on an embedding table, in place: only the rows that were looked up are touched.

    g        = sum of grads[i] over all i with ids[i] == r              (for each row r that occurs in ids)
    state[r] = state[r] + mean(g ** 2, over the row)
    table[r] = table[r] - lr * g / (sqrt(state[r]) + eps)

Gradients of a row that was looked up several times are added up first, in the order in which they were looked up, so
that two runs give the same bits. Computed in float32 (float64 for float64 inputs); the state is float32. Called by
name: it is a step of an optimizer, which no exported forward pass holds.

Sources: Duchi, Hazan and Singer, "Adaptive Subgradient Methods", 2011 (JMLR 12); row-wise, and fused with the lookup's
backward pass, as in Mudigere et al., "Software-Hardware Co-design for Fast and Scalable Training of DLRMs", 2022
(arXiv 2104.05158).
Not for: stochastic rounding, weight decay, or rows wider than 4096. On a CPU the reference walks over the whole table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from kernels import rows
from kernels.inputs import integers, meta, normal
from kernels.spec import Configuration, Cost, Kernel, Launch, Sample, configuration, power_of_two, register, same_size

tl: Any = None  # triton.language: `jit` sets it

WIDEST = 4096


def _kernel(  # type: ignore[no-untyped-def]
    table_ptr, state_ptr, ids_ptr, order_ptr, grads_ptr, count, width, lr, eps, COLUMNS: tl.constexpr
):
    place = tl.program_id(0).to(tl.int64)  # int64: an offset may pass 2**31
    column = tl.arange(0, COLUMNS)
    mask = column < width
    lr, eps = tl.cast(lr, tl.float32), tl.cast(eps, tl.float32)  # a wrapper may pass them as fp64
    row = tl.load(ids_ptr + place).to(tl.int64)
    before = tl.load(ids_ptr + place - 1, mask=place > 0, other=-1).to(tl.int64)
    if row != before:  # the first of a run of equal ids does the work of all
        grad = tl.zeros((COLUMNS,), tl.float32)
        at = place
        same = row
        while same == row:
            one = tl.load(order_ptr + at)
            grad += tl.load(grads_ptr + one * width + column, mask=mask, other=0.0).to(tl.float32)
            at += 1
            same = tl.load(ids_ptr + at, mask=at < count, other=-1).to(tl.int64)
        state = tl.load(state_ptr + row).to(tl.float32) + tl.sum(grad * grad, axis=0) / width
        tl.store(state_ptr + row, state)
        value = tl.load(table_ptr + row * width + column, mask=mask, other=0.0).to(tl.float32)
        value -= lr * grad / (tl.sqrt(state) + eps)
        tl.store(table_ptr + row * width + column, value.to(table_ptr.dtype.element_ty), mask=mask)


@register
class RowwiseAdagrad(Kernel):
    name = "rowwise_adagrad"
    schema = "(Tensor(a!) table, Tensor(b!) state, Tensor ids, Tensor grads, float lr, float eps) -> ()"
    tolerances = rows.TOLERANCES
    reasons: ClassVar[dict[str, str]] = {
        "narrow_loads": (
            "One program updates one row, as wide as the embedding, once all gradients of equal ids are added up."
        ),
        "few_bytes_in_flight": (
            "One program walks the gradients of equal ids one after another: how many there are is in the data."
        ),
    }
    mutates = ("table", "state")
    differentiable = False

    def reference(
        self, table: Tensor, state: Tensor, ids: Tensor, grads: Tensor, lr: float, eps: float
    ) -> tuple[Tensor, Tensor]:
        wide = table.to(torch.promote_types(table.dtype, torch.float32))
        grad = torch.zeros_like(wide).index_add(0, ids.long(), grads.to(wide.dtype))
        new_state = state + grad.square().mean(-1)
        new = wide - lr * grad / (new_state.sqrt() + eps).unsqueeze(-1)
        return new.to(table.dtype), new_state

    def fake(self, *args: Any) -> tuple[Tensor, ...]:
        return ()

    def configurations(self, table: Tensor, *rest: Any) -> tuple[Configuration, ...]:
        columns = power_of_two(table.shape[-1], 32)
        return (configuration(num_warps=1, COLUMNS=columns), configuration(num_warps=4, COLUMNS=columns))

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        table, state, ids, grads, lr, eps = args
        count, width = ids.shape[0], table.shape[1]
        if not count or not width:
            return []
        ordered, order = torch.sort(ids, stable=True)
        given = (table, state, ordered, order, grads.contiguous(), count, width, lr, eps)
        return [Launch(_kernel, (count,), given, configuration.constants, configuration.num_warps)]

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        def given(n_rows: int, width: int, count: int) -> tuple[Any, ...]:
            state = normal(n_rows, dtype=torch.promote_types(dtype, torch.float32), seed=2).abs()
            grads = normal(count, width, dtype=dtype, seed=1)
            return normal(n_rows, width, dtype=dtype), state, integers(count, below=n_rows, seed=3), grads, 0.1, 1e-6

        return [
            Sample("9 of 6, width 7", given(6, 7, 9)),
            Sample("3 of 50, width 64", given(50, 64, 3)),
            Sample("5 of 4, width 300", given(4, 300, 5)),
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        table, grads = normal(4, 5, dtype=dtype), normal(3, 5, dtype=dtype, seed=1)
        state = torch.zeros(4, dtype=torch.promote_types(dtype, torch.float32))
        return [
            Sample("equal ids, the last row", (table, state, torch.full((3,), 3), grads, 0.5, 1e-3)),
            Sample("gradients of zero", (table, state, torch.arange(3), grads * 0, 0.5, 1e-3)),
            Sample("they cancel", (table, state, torch.zeros(2).long(), torch.stack((grads[0], -grads[0])), 0.5, 1e-3)),
            Sample("int32 ids", (table, state, torch.arange(3).int(), grads, 0.5, 1e-3)),
            Sample("nothing", (table, state, torch.arange(0), grads[:0], 0.5, 1e-3)),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        state = meta(10_000_000, dtype=torch.promote_types(dtype, torch.float32))
        ids, grads = meta(212_992, dtype=torch.int64), meta(212_992, 64, dtype=dtype)
        given = (meta(10_000_000, 64, dtype=dtype), state, ids, grads, 0.01, 1e-8)
        return Sample("212,992 rows of 64", given)

    def check(self, table: Tensor, state: Tensor, ids: Tensor, grads: Tensor, lr: float, eps: float) -> str | None:
        if table.dtype not in rows.FLOATS or grads.dtype != table.dtype:
            return f"the table is {table.dtype}, its gradients {grads.dtype}: not one float dtype"
        if table.dim() != 2 or not (isinstance(table.shape[1], int) and table.shape[1] <= WIDEST):
            return f"the table is not rows of at most {WIDEST}"
        if not (table.is_contiguous() and state.is_contiguous()):
            return "the table or its state is not contiguous: it is written in place"
        if state.dtype != torch.promote_types(table.dtype, torch.float32) or not same_size(
            state.numel(), table.shape[0]
        ):
            return f"the state is {state.dtype} {tuple(state.shape)}, not one wide number for each row"
        if ids.dtype not in (torch.int64, torch.int32) or ids.dim() != 1 or grads.dim() != 2:
            return f"the ids are {ids.dtype} of {ids.dim()} dimensions, not a vector of integers"
        if not same_size(grads.shape[0], ids.shape[0]) or grads.shape[1] != table.shape[1]:
            return f"gradients {tuple(grads.shape)} are not one row for each id"
        return None if eps > 0 else "without an eps a row that never had a gradient would be divided by zero"

    def cost(self, table: Tensor, state: Tensor, ids: Tensor, grads: Tensor, lr: float, eps: float) -> Cost:
        # as if no two ids were equal
        moved = 3 * grads.numel() * table.element_size() + 2 * ids.shape[0] * state.element_size()
        return Cost(bytes=moved + ids.numel() * ids.element_size(), flops=6 * grads.numel())
