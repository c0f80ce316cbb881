"""Binary cross entropy with logits of many tasks at once, weighted, in one walk and one sum.

    softplus(z) = log(1 + exp(-|z|)) + max(z, 0)
    loss = weight * ((1 - y) * x + (1 + (pos_weight - 1) * y) * softplus(-x))
    out  = mean (or sum) of loss over all elements

weight and pos_weight hold one value per task (the last dimension). Computed in float32 (float64 for float64 inputs);
partial sums are added up by one program in a fixed order, so that two calls give the same bits.

Source: torch's own definition of `binary_cross_entropy_with_logits`; the form that cannot overflow is the usual one.
Not for: weights per element, weights that are trained, or no reduction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels import rows
from kernels.inputs import coins, meta, normal
from kernels.patterns import Found, Pattern, add, anything, aten, call, either, mul, optional, sub, tensor
from kernels.spec import (
    Configuration,
    Cost,
    Kernel,
    Launch,
    Sample,
    Tolerance,
    ceil_div,
    configuration,
    register,
    same_shape,
    same_size,
)

tl: Any = None  # triton.language: `jit` sets it

REDUCTIONS = ("none", "mean", "sum")  # as aten numbers them


def _parts(  # type: ignore[no-untyped-def]
    x_ptr,
    y_ptr,
    weight_ptr,
    pos_weight_ptr,
    part_ptr,
    count,
    tasks,
    HAS_WEIGHT: tl.constexpr,
    HAS_POS_WEIGHT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    program = tl.program_id(0)
    at = program.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + at, mask=mask, other=0.0).to(tl.float32)
    softplus = tl.log(1.0 + tl.exp(-tl.abs(x))) + tl.maximum(-x, 0.0)
    loss = (1.0 - y) * x
    if HAS_POS_WEIGHT:
        loss += (1.0 + (tl.load(pos_weight_ptr + at % tasks, mask=mask, other=1.0).to(tl.float32) - 1.0) * y) * softplus
    else:
        loss += softplus
    if HAS_WEIGHT:
        loss *= tl.load(weight_ptr + at % tasks, mask=mask, other=0.0).to(tl.float32)
    tl.store(part_ptr + program, tl.sum(tl.where(mask, loss, 0.0), axis=0))


def _total(part_ptr, out_ptr, parts, divisor, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    divisor = tl.cast(divisor, tl.float32)  # a wrapper may pass the scalar as fp64
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, parts, BLOCK):
        at = first + tl.arange(0, BLOCK)
        total += tl.load(part_ptr + at, mask=at < parts, other=0.0)
    tl.store(out_ptr, (tl.sum(total, axis=0) / divisor).to(out_ptr.dtype.element_ty))


def _added_up(losses: Pattern) -> Pattern:
    return call((aten.mean.default, aten.sum.default), losses)


_POSITIVE = either(
    call((aten.clamp.default, aten.clamp_min.default), tensor("logits"), 0), call(aten.relu.default, tensor("logits"))
)
_REST = call(
    aten.log1p.default, call(aten.exp.default, call(aten.neg.default, call(aten.abs.default, tensor("logits"))))
)


@register
class WeightedBce(Kernel):
    name = "weighted_bce"
    schema = "(Tensor logits, Tensor targets, Tensor? weight, Tensor? pos_weight, str reduction) -> Tensor"
    tolerances: ClassVar[dict[torch.dtype, Tolerance]] = {
        **rows.TOLERANCES,
        torch.float32: Tolerance(absolute=1e-5, relative=1e-5),
    }
    breadth = 2
    untrained = ("weight", "pos_weight")
    patterns: ClassVar[dict[str, Any]] = {
        "aten.binary_cross_entropy_with_logits": call(
            aten.binary_cross_entropy_with_logits.default,
            tensor("logits"),
            tensor("targets"),
            weight=optional("weight"),
            pos_weight=optional("pos_weight"),
            reduction=anything("reduction"),
        ),
        "mean or sum of softplus(x) - x * y": _added_up(
            sub(call(aten.softplus.default, tensor("logits")), mul(tensor("logits"), tensor("targets")))
        ),
        "mean or sum of max(x, 0) - x * y + log(1 + exp(-abs(x)))": _added_up(
            either(
                add(sub(_POSITIVE, mul(tensor("logits"), tensor("targets"))), _REST),
                sub(add(_POSITIVE, _REST), mul(tensor("logits"), tensor("targets"))),
            )
        ),
    }

    def arguments(self, found: Found) -> tuple[Any, ...] | str:
        if "reduction" in found.values:
            kind = REDUCTIONS[found["reduction"]]
        else:
            kind = "sum" if any(node.target is aten.sum.default for node in found.inside) else "mean"
        return found["logits"], found["targets"], found.get("weight"), found.get("pos_weight"), kind

    def reference(
        self, logits: Tensor, targets: Tensor, weight: Tensor | None, pos_weight: Tensor | None, reduction: str
    ) -> Tensor:
        wide = torch.promote_types(logits.dtype, torch.float32)
        x, y = logits.to(wide), targets.to(wide)
        weight, pos_weight = (None if w is None else w.detach().to(wide) for w in (weight, pos_weight))
        found = F.binary_cross_entropy_with_logits(x, y, weight, pos_weight=pos_weight, reduction=reduction)
        return found.to(logits.dtype)

    def fake(self, logits: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        return (torch.empty((), dtype=logits.dtype, device=logits.device),)

    def configurations(self, *args: Any) -> tuple[Configuration, ...]:
        return (configuration(BLOCK=1024), configuration(num_warps=8, BLOCK=4096))

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        logits, targets, weight, pos_weight, reduction = args
        (out,) = outputs
        count, tasks = logits.numel(), logits.shape[-1]
        parts = ceil_div(count, configuration["BLOCK"])
        partial = torch.empty(parts, dtype=torch.float32, device=logits.device)
        divisor = float(count) if reduction == "mean" else 1.0
        found = [Launch(_total, (1,), (partial, out, parts, divisor), {"BLOCK": 1024})]
        if parts:
            logits, targets = logits.contiguous(), targets.contiguous()
            vectors = [logits if w is None else w.contiguous() for w in (weight, pos_weight)]
            constants: dict[str, int] = {"HAS_WEIGHT": weight is not None, "HAS_POS_WEIGHT": pos_weight is not None}
            constants.update(configuration.constants)
            given = (logits, targets, *vectors, partial, count, tasks)
            found.insert(0, Launch(_parts, (parts,), given, constants, configuration.num_warps))
        return found

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        x, y = normal(33, 3, dtype=dtype, scale=2.0), coins(33, 3).to(dtype)
        weight, positive = torch.tensor([1.0, 0.5, 2.0]).to(dtype), torch.tensor([4.0, 1.0, 0.25]).to(dtype)
        return [
            Sample("three tasks", (x, y, weight, positive, "mean")),
            Sample("without weights", (x, y, None, None, "sum")),
            Sample("one task of many rows", (normal(5000, dtype=dtype), coins(5000).to(dtype), None, None, "mean")),
            Sample("soft targets", (x, (coins(33, 3) * 0.25 + 0.5).to(dtype), None, positive, "mean")),
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        x, y = normal(4, 2, dtype=dtype), coins(4, 2).to(dtype)
        return [
            Sample("large logits", (x * 100, y, None, None, "mean")),
            Sample("zeros", (torch.zeros_like(x), y, None, None, "sum")),
            Sample("transposed", (normal(2, 4, dtype=dtype).T, y, None, None, "mean")),
            Sample("sum of nothing", (x[:0], y[:0], None, None, "sum")),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        x, vector = meta(65536, 8, dtype=dtype), meta(8, dtype=dtype)
        return Sample("65536x8", (x, x, vector, vector, "mean"))

    def check(
        self, logits: Tensor, targets: Tensor, weight: Tensor | None, pos_weight: Tensor | None, reduction: str
    ) -> str | None:
        if reduction not in REDUCTIONS[1:]:
            return "the losses are not added up"
        if logits.dtype not in rows.FLOATS:
            return f"the dtype is {logits.dtype}, not a floating point one"
        if targets.dtype != logits.dtype or not same_shape(logits, targets):
            return f"the targets are {targets.dtype} {tuple(targets.shape)}, the logits {logits.dtype}"
        if logits.dim() < 1:
            return "a single number has no tasks"
        for name, vector in (("weight", weight), ("pos_weight", pos_weight)):
            if vector is not None and (vector.dim() != 1 or not same_size(vector.shape[0], logits.shape[-1])):
                return f"the {name} {tuple(vector.shape)} is not one value for each task"
        return None

    def cost(
        self, logits: Tensor, targets: Tensor, weight: Tensor | None, pos_weight: Tensor | None, reduction: str
    ) -> Cost:
        vectors = sum(w.numel() for w in (weight, pos_weight) if w is not None)
        return Cost(bytes=(2 * logits.numel() + vectors) * logits.element_size(), flops=10 * logits.numel())
