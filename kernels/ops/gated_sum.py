"""The gate of a mixture of experts that all run (MMoE): softmax of the gate and the weighted sum of the experts.

    weights = softmax(logits, over the experts);  out[b] = sum over e of weights[b, e] * experts[b, e]

Computed in float32 (float64 for float64 inputs) and rounded once.

Source: Ma et al., "Modeling Task Relationships in Multi-task Learning with Multi-gate Mixture-of-Experts", 2018 (KDD),
equations 5 to 7.
Not for: experts of which only a few run (see `topk_gating`), or experts in another dimension than the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from kernels import rows
from kernels.inputs import meta, normal
from kernels.patterns import Found, Made, anything, aten, call, is_dim, mul, tensor, value
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
from kernels.spellings import einsum, softmax

tl: Any = None  # triton.language: `jit` sets it


def _kernel(  # type: ignore[no-untyped-def]
    experts_ptr, logits_ptr, out_ptr, batch, experts, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)  # int64: an offset may pass 2**31
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = row < batch
    largest = tl.full((ROWS,), float("-inf"), tl.float32)
    for expert in range(0, experts):
        logit = tl.load(logits_ptr + row * experts + expert, mask=inside, other=0.0).to(tl.float32)
        largest = tl.maximum(largest, logit)
    total = tl.zeros((ROWS,), tl.float32)
    found = tl.zeros((ROWS, COLUMNS), tl.float32)
    mask = inside[:, None] & (column < width)
    for expert in range(0, experts):
        logit = tl.load(logits_ptr + row * experts + expert, mask=inside, other=0.0).to(tl.float32)
        share = tl.exp(logit - largest)
        total += share
        at = (row[:, None] * experts + expert) * width + column
        found += share[:, None] * tl.load(experts_ptr + at, mask=mask, other=0.0).to(tl.float32)
    found = found / total[:, None]
    tl.store(out_ptr + row[:, None] * width + column, found.to(out_ptr.dtype.element_ty), mask=mask)


_WEIGHTS = softmax(tensor("logits"), anything("over"))


@register
class GatedSum(Kernel):
    name = "gated_sum"
    schema = "(Tensor experts, Tensor logits) -> Tensor"
    tolerances = rows.TOLERANCES
    reasons: ClassVar[dict[str, str]] = {
        "narrow_loads": "The gate is read one expert at a time, a value for each row.",
    }
    breadth = 4
    patterns: ClassVar[dict[str, Any]] = {
        "sum(softmax(gate).unsqueeze(-1) * experts, 1)": call(
            aten.sum.dim_IntList,
            mul(call(aten.unsqueeze.default, _WEIGHTS, anything("new")), tensor("experts")),
            anything("summed"),
        ),
        "einsum('be,bed->bd', softmax(gate), experts)": einsum("be,bed->bd", _WEIGHTS, tensor("experts")),
        "bmm(softmax(gate).unsqueeze(1), experts).squeeze(1)": call(
            aten.squeeze.dim,
            call((aten.bmm.default, aten.matmul.default), call(aten.unsqueeze.default, _WEIGHTS, 1), tensor("experts")),
            1,
        ),
        "sum(softmax(gate).unsqueeze(1) * experts, -1), the experts behind the width": call(
            aten.sum.dim_IntList,
            mul(call(aten.unsqueeze.default, _WEIGHTS, 1), tensor("behind")),
            anything("summed_behind"),
        ),
        "matmul(experts, softmax(gate).unsqueeze(-1)).squeeze(-1), the experts behind the width": call(
            aten.squeeze.dim,
            call(
                (aten.bmm.default, aten.matmul.default),
                tensor("behind"),
                call(aten.unsqueeze.default, _WEIGHTS, anything("new")),
            ),
            anything("summed_behind"),
        ),
    }

    def arguments(self, found: Found) -> tuple[Any, ...] | str:
        behind = found.get("behind")
        logits, experts = value(found["logits"]), value(behind or found["experts"])
        if logits.dim() != 2 or experts.dim() != 3:
            return "the gate is not [batch, experts] or the experts are not [batch, experts, width]"
        if not is_dim(found["over"], 1, 2):
            return "the softmax is not over the experts"
        if not is_dim(found.get("new", -1), 2, 3):
            return "the weights are not along the experts' second dimension"
        if not is_dim(found.get("summed", 1), 1, 3) or not is_dim(found.get("summed_behind", -1), 2, 3):
            return "the sum is not over the experts (dimension 1)"
        turned = found["experts"] if behind is None else Made(aten.transpose.int, (behind, 1, 2))
        return turned, found["logits"]

    def reference(self, experts: Tensor, logits: Tensor) -> Tensor:
        wide = experts.to(torch.promote_types(experts.dtype, torch.float32))
        weights = torch.softmax(logits.to(wide.dtype), -1)
        return (weights.unsqueeze(-1) * wide).sum(1).to(experts.dtype)

    def fake(self, experts: Tensor, logits: Tensor) -> tuple[Tensor, ...]:
        return (torch.empty((experts.shape[0], experts.shape[2]), dtype=experts.dtype, device=experts.device),)

    def configurations(self, experts: Tensor, logits: Tensor) -> tuple[Configuration, ...]:
        columns = min(256, power_of_two(experts.shape[-1]))
        few = max(1, 1024 // columns)
        return (configuration(ROWS=few, COLUMNS=columns), configuration(ROWS=1, COLUMNS=max(1, columns // 2)))

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        experts, logits = args
        batch, count, width = experts.shape
        if not batch or not width:
            return []
        grid = (ceil_div(batch, configuration["ROWS"]), ceil_div(width, configuration["COLUMNS"]))
        given = (experts.contiguous(), logits.contiguous(), *outputs, batch, count, width)
        return [Launch(_kernel, grid, given, configuration.constants, configuration.num_warps)]

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        return [
            Sample(f"{b}x{e}x{d}", (normal(b, e, d, dtype=dtype), normal(b, e, dtype=dtype, seed=1, scale=2.0)))
            for b, e, d in ((5, 4, 23), (17, 3, 64), (2, 8, 300))
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        experts, logits = normal(3, 4, 5, dtype=dtype), normal(3, 4, dtype=dtype, seed=1)
        return [
            Sample("one expert", (experts[:, :1].contiguous(), logits[:, :1].contiguous())),
            Sample("large logits", (experts, logits * 300)),
            Sample("equal logits", (experts, torch.zeros_like(logits))),
            Sample("transposed", (normal(3, 5, 4, dtype=dtype).transpose(1, 2), logits)),
            Sample("nothing", (experts[:0], logits[:0])),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        return Sample("8192x8x256", (meta(8192, 8, 256, dtype=dtype), meta(8192, 8, dtype=dtype)))

    def check(self, experts: Tensor, logits: Tensor) -> str | None:
        if experts.dtype not in rows.FLOATS:
            return f"the dtype is {experts.dtype}, not a floating point one"
        if logits.dtype != experts.dtype:
            return f"the gate has dtype {logits.dtype}, the experts {experts.dtype}"
        if experts.dim() != 3 or logits.dim() != 2:
            return "the experts are not [batch, experts, width] or the gate is not [batch, experts]"
        if not all(same_size(a, b) for a, b in zip(logits.shape, experts.shape[:2], strict=True)):
            return f"a gate {tuple(logits.shape)} does not fit experts {tuple(experts.shape)}"
        return None

    def cost(self, experts: Tensor, logits: Tensor) -> Cost:
        batch, _, width = experts.shape
        moved = experts.numel() + logits.numel() + batch * width
        return Cost(bytes=moved * experts.element_size(), flops=2 * experts.numel() + 3 * logits.numel())
