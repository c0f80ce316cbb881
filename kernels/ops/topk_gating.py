"""The router of a sparse mixture of experts: softmax over the experts, the best k, and their weights, in one pass.

    p = softmax(logits, over the experts);  ids = the k experts of largest p, largest first;  weights = p[ids]
    renormalise: weights = weights / sum(weights)

Computed in float32 (float64 for float64 inputs). Of equal logits the lower number comes first.

Source: Shazeer et al., "Outrageously Large Neural Networks: The Sparsely-Gated Mixture-of-Experts Layer", 2017
(arXiv 1701.06538); renormalised as in Jiang et al., "Mixtral of Experts", 2024 (arXiv 2401.04088).
Not for: noisy gates, or experts chosen group by group. Torch promises no order among equal logits.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from kernels import patterns, rows
from kernels.inputs import meta
from kernels.patterns import anything, aten, call, tensor
from kernels.spec import (
    Configuration,
    Cost,
    Kernel,
    Launch,
    Match,
    Mismatch,
    Sample,
    ceil_div,
    configuration,
    power_of_two,
    register,
)
from kernels.spellings import softmax

tl: Any = None  # triton.language: `jit` sets it

MOST_EXPERTS = 4096


def _kernel(  # type: ignore[no-untyped-def]
    logits_ptr,
    weights_ptr,
    ids_ptr,
    n_rows,
    experts,
    K: tl.constexpr,
    RENORMALISE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)[None, :]
    mask = (row < n_rows)[:, None] & (column < experts)
    x = tl.load(logits_ptr + row[:, None] * experts + column, mask=mask, other=float("-inf")).to(tl.float32)
    largest = tl.max(x, axis=1)
    total = tl.sum(tl.exp(x - largest[:, None]), axis=1)
    kept = tl.zeros((ROWS,), tl.float32)
    left = x
    for _ in range(K):
        best = tl.max(left, axis=1)
        kept += tl.exp(best - largest)
        chosen = tl.min(tl.where(left == best[:, None], column, COLUMNS), axis=1)
        left = tl.where(column == chosen[:, None], float("-inf"), left)
    if RENORMALISE:
        total = kept
    left = x
    for place in range(K):
        best = tl.max(left, axis=1)
        chosen = tl.min(tl.where(left == best[:, None], column, COLUMNS), axis=1)
        left = tl.where(column == chosen[:, None], float("-inf"), left)
        share = tl.exp(best - largest) / total
        tl.store(weights_ptr + row * K + place, share.to(weights_ptr.dtype.element_ty), mask=row < n_rows)
        tl.store(ids_ptr + row * K + place, chosen.to(tl.int64), mask=row < n_rows)


_SOFTMAX = softmax(tensor("logits"), anything("over"))
_BEST = call(aten.topk.default, _SOFTMAX, anything("k"), dim=anything("dim"))
_RAW = call(aten.topk.default, tensor("logits"), anything("k"), dim=anything("dim"))


@register
class TopkGating(Kernel):
    name = "topk_gating"
    schema = "(Tensor logits, int k, bool renormalise) -> (Tensor, Tensor)"
    tolerances = rows.TOLERANCES
    breadth = 4
    spellings = (
        "topk(softmax(logits), k)",
        "topk(softmax(logits), k), weights / weights.sum(-1, keepdim=True)",
        "topk(logits, k), softmax(values)",
    )

    def match(self, anchor: Node) -> Match | Mismatch | None:
        """The anchor is the topk."""
        if anchor.target is not aten.topk.default:
            return None
        found = patterns.find(_BEST, anchor)
        raw = found is None
        found = found or patterns.find(_RAW, anchor)
        if found is None:
            return None
        logits = found["logits"]
        rank = patterns.value(logits).dim()
        if not patterns.last(found["dim"], rank) or not patterns.last(found.get("over", -1), rank):
            return None if raw else Mismatch("the softmax or the choice is not over the last dimension", anchor)
        parts = {user.args[1]: user for user in anchor.users if user.target is operator.getitem}
        values, ids = parts.get(0), parts.get(1)
        if values is None or len(parts) != len(anchor.users):
            return None
        inside = [*found.inside, values]
        if raw:
            end = patterns.only_user(values)
            if end is None or patterns.find(softmax(tensor("values"), anything("over")), end) is None:
                return None  # a topk without a softmax: no gate
            if not patterns.last(patterns.arguments(end)["dim"], rank):
                return Mismatch("the softmax of the best is not over the last dimension", end)
            return self.complete((logits, found["k"], True), (end, ids), inside)
        for user in values.users:
            total = call(aten.sum.dim_IntList, tensor("values"), anything("over"), True)
            whole = patterns.find(call(aten.div.Tensor, tensor("values"), total), user)
            if whole is not None and whole["values"] is values and patterns.last(whole["over"], rank):
                return self.complete((logits, found["k"], True), (user, ids), [*inside, *whole.inside])
        return self.complete((logits, found["k"], False), (values, ids), found.inside)

    def reference(self, logits: Tensor, k: int, renormalise: bool) -> tuple[Tensor, Tensor]:
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
        weights, ids = torch.topk(torch.softmax(wide, -1), k, -1)
        if renormalise:
            weights = weights / weights.sum(-1, keepdim=True)
        return weights.to(logits.dtype), ids

    def fake(self, logits: Tensor, k: int, renormalise: bool) -> tuple[Tensor, ...]:
        shape = (*logits.shape[:-1], k)
        weights = torch.empty(shape, dtype=logits.dtype, device=logits.device)
        return weights, torch.empty(shape, dtype=torch.int64, device=logits.device)

    def configurations(self, logits: Tensor, *rest: Any) -> tuple[Configuration, ...]:
        columns = power_of_two(logits.shape[-1])
        few = max(1, 512 // columns)
        return (configuration(ROWS=few, COLUMNS=columns), configuration(num_warps=2, ROWS=few * 2, COLUMNS=columns))

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        logits, k, renormalise = args
        n_rows, experts = rows.rows_of(logits)
        if not n_rows or not k:
            return []
        constants = {"K": k, "RENORMALISE": renormalise, **configuration.constants}
        grid = (ceil_div(n_rows, configuration["ROWS"]),)
        return [
            Launch(_kernel, grid, (logits.contiguous(), *outputs, n_rows, experts), constants, configuration.num_warps)
        ]

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        def logits(count: int, experts: int) -> Tensor:  # no two of a row are equal, in any dtype
            order = [torch.randperm(experts, generator=torch.Generator().manual_seed(s)) for s in range(count)]
            return (torch.stack(order) * 0.125 - 1).to(dtype)

        return [
            Sample("7x8, 2", (logits(7, 8), 2, True)),
            Sample("33x60, 6", (logits(33, 60), 6, False)),
            Sample("2x3x5, 1", (logits(6, 5).view(2, 3, 5), 1, False)),
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        x = torch.tensor([[1.0, 3.0, 2.0], [-4.0, 0.0, -2.0]]).to(dtype)
        return [
            Sample("all of them", (x, 3, True)),
            Sample("large", (x * 100, 2, False)),
            Sample("one expert", (x[:, :1].clone(), 1, True)),
            Sample("nothing", (x[:0], 2, True)),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        return Sample("16384x64, 6", (meta(16384, 64, dtype=dtype), 6, True))

    def check(self, logits: Tensor, k: int, renormalise: bool) -> str | None:
        if logits.dtype not in rows.FLOATS:
            return f"the dtype is {logits.dtype}, not a floating point one"
        if logits.dim() < 1 or not isinstance(logits.shape[-1], int):
            return "the number of experts is not fixed"
        if not 0 < k <= logits.shape[-1] <= MOST_EXPERTS:
            return f"{k} of {logits.shape[-1]} experts: at most {MOST_EXPERTS} are handled"
        return None

    def cost(self, logits: Tensor, k: int, renormalise: bool) -> Cost:
        chosen = logits.numel() // logits.shape[-1] * k
        moved = (logits.numel() + chosen) * logits.element_size() + 8 * chosen
        return Cost(bytes=moved, flops=4 * logits.numel() + 2 * k * logits.numel())
