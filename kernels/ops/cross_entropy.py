"""Softmax cross entropy without the probabilities in memory: one walk over each row of logits.

    loss[i] = log(sum over c of exp(logits[i, c])) - logits[i, target[i]],  0 where target[i] == ignore_index
    mean: sum of loss / number of rows not ignored;  sum: sum of loss;  none: loss

The log of the sum is kept relative to the running maximum, in float32 (float64 for float64 inputs). The sum over rows
is made by one program in a fixed order, so that two calls give the same bits.

Source: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018 (arXiv 1805.02867).
Not for: class weights, label smoothing, targets that are probabilities, or classes in a middle dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels import rows
from kernels.inputs import integers, meta, normal
from kernels.patterns import Found, Pattern, anything, aten, call, either, is_dim, tensor, value
from kernels.spec import (
    Configuration,
    Cost,
    Kernel,
    Launch,
    Sample,
    Tolerance,
    ceil_div,
    configuration,
    power_of_two,
    register,
    same_size,
)
from kernels.spellings import column

tl: Any = None  # triton.language: `jit` sets it

REDUCTIONS = ("none", "mean", "sum")  # as aten numbers them


def _losses(  # type: ignore[no-untyped-def]
    logits_ptr, target_ptr, loss_ptr, n_rows, classes, ignore_index, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)  # int64: rows * classes may pass 2**31
    column = tl.arange(0, COLUMNS)[None, :]
    target = tl.load(target_ptr + row, mask=row < n_rows, other=ignore_index)
    kept = (row < n_rows) & (target != ignore_index)
    largest = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    for first in range(0, classes, COLUMNS):
        here = first + column
        mask = (row < n_rows)[:, None] & (here < classes)
        x = tl.load(logits_ptr + row[:, None] * classes + here, mask=mask, other=float("-inf")).to(tl.float32)
        larger = tl.maximum(largest, tl.max(x, axis=1))
        base = tl.where(larger == float("-inf"), 0.0, larger)  # a row of -inf alone would give inf - inf
        total = total * tl.exp(largest - base) + tl.sum(tl.exp(x - base[:, None]), axis=1)
        largest = larger
    chosen = tl.load(logits_ptr + row * classes + target, mask=kept, other=0.0).to(tl.float32)
    loss = tl.where(kept, tl.log(total) + largest - chosen, 0.0)
    tl.store(loss_ptr + row, loss.to(loss_ptr.dtype.element_ty), mask=row < n_rows)


def _reduce(  # type: ignore[no-untyped-def]
    loss_ptr, target_ptr, out_ptr, n_rows, ignore_index, MEAN: tl.constexpr, BLOCK: tl.constexpr
):
    total = tl.zeros((BLOCK,), tl.float32)
    count = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, n_rows, BLOCK):
        row = first + tl.arange(0, BLOCK)
        total += tl.load(loss_ptr + row, mask=row < n_rows, other=0.0)
        target = tl.load(target_ptr + row, mask=row < n_rows, other=ignore_index)
        count += tl.where(target != ignore_index, 1.0, 0.0)
    out = tl.sum(total, axis=0)
    if MEAN:
        out = out / tl.sum(count, axis=0)
    tl.store(out_ptr, out.to(out_ptr.dtype.element_ty))


def reduce_rows(losses: Tensor, target: Tensor, out: Tensor, ignore_index: int, reduction: str) -> Launch:
    """The launch that makes one number of a loss per row."""
    constants = {"MEAN": reduction == "mean", "BLOCK": 1024}
    return Launch(_reduce, (1,), (losses, target, out, losses.shape[0], ignore_index), constants)


def _added_up(losses: Pattern) -> Pattern:
    return call((aten.mean.default, aten.sum.default), losses)


_LOG_SOFTMAX = either(
    call(aten.log_softmax.int, tensor("logits"), anything("over")),
    call(aten._log_softmax.default, tensor("logits"), anything("over"), False),
)
_CHOSEN = call(aten.gather.default, _LOG_SOFTMAX, 1, column(tensor("target")))
_PICKED = either(call(aten.squeeze.dim, _CHOSEN, anything()), call(aten.squeeze.default, _CHOSEN), _CHOSEN)


@register
class CrossEntropy(Kernel):
    name = "cross_entropy"
    schema = "(Tensor logits, Tensor target, int ignore_index, str reduction) -> Tensor"
    tolerances: ClassVar[dict[torch.dtype, Tolerance]] = {
        **rows.TOLERANCES,
        torch.float32: Tolerance(absolute=1e-5, relative=1e-5),
    }
    breadth = 2
    patterns: ClassVar[dict[str, Any]] = {
        "aten.cross_entropy_loss": call(
            aten.cross_entropy_loss.default,
            tensor("logits"),
            tensor("target"),
            weight=anything("weight"),
            reduction=anything("reduction"),
            ignore_index=anything("ignore_index"),
            label_smoothing=anything("label_smoothing"),
        ),
        "nll_loss(log_softmax(x))": call(
            (aten.nll_loss_nd.default, aten.nll_loss.default),
            _LOG_SOFTMAX,
            tensor("target"),
            weight=anything("weight"),
            reduction=anything("reduction"),
            ignore_index=anything("ignore_index"),
        ),
        "mean or sum of -log_softmax(x).gather(1, target)": either(
            call(aten.neg.default, _added_up(_PICKED)), _added_up(call(aten.neg.default, _PICKED))
        ),
    }

    def arguments(self, found: Found) -> tuple[Any, ...] | str:
        if "over" in found.values:
            if value(found["logits"]).dim() != 2 or not is_dim(found["over"], 1, 2):
                return "the softmax is not over the classes of [rows, classes]"
            if "reduction" not in found.values:  # a gather raises for what would be ignored
                added = any(node.target is aten.sum.default for node in found.inside)
                return found["logits"], found["target"], -100, "sum" if added else "mean"
        if found["weight"] is not None:
            return "the classes are weighted"
        if found.get("label_smoothing", 0) != 0:
            return "the labels are smoothed"
        return found["logits"], found["target"], found["ignore_index"], REDUCTIONS[found["reduction"]]

    def reference(self, logits: Tensor, target: Tensor, ignore_index: int, reduction: str) -> Tensor:
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return F.cross_entropy(wide, target, ignore_index=ignore_index, reduction=reduction).to(logits.dtype)

    def fake(self, logits: Tensor, target: Tensor, ignore_index: int, reduction: str) -> tuple[Tensor, ...]:
        shape = target.shape if reduction == "none" else ()
        return (torch.empty(shape, dtype=logits.dtype, device=logits.device),)

    def configurations(self, logits: Tensor, *rest: Any) -> tuple[Configuration, ...]:
        columns = min(4096, power_of_two(logits.shape[-1], 16))
        few = max(1, 1024 // columns)
        return (
            configuration(num_warps=8, ROWS=few, COLUMNS=columns),
            configuration(num_warps=4, ROWS=few * 2, COLUMNS=max(16, columns // 4)),
        )

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        logits, target, ignore_index, reduction = args
        n_rows, classes = logits.shape
        (out,) = outputs
        if not n_rows and reduction == "none":
            return []
        logits, target = logits.contiguous(), target.contiguous()
        losses = out
        if reduction != "none":
            losses = torch.empty(n_rows, dtype=torch.float32, device=logits.device)
        found = []
        if n_rows:
            given = (logits, target, losses, n_rows, classes, ignore_index)
            grid = (ceil_div(n_rows, configuration["ROWS"]),)
            found.append(Launch(_losses, grid, given, configuration.constants, configuration.num_warps))
        if reduction != "none":
            found.append(reduce_rows(losses, target, out, ignore_index, reduction))
        return found

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        some = integers(5, below=123, seed=1)
        some[2] = -100
        return [
            Sample("5x123 mean", (normal(5, 123, dtype=dtype), some, -100, "mean")),
            Sample("5x123 none", (normal(5, 123, dtype=dtype), some, -100, "none")),
            Sample("33x7 sum", (normal(33, 7, dtype=dtype), integers(33, below=7), 3, "sum")),
            Sample("2x5000 mean", (normal(2, 5000, dtype=dtype), integers(2, below=5000), -100, "mean")),
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        x, target = normal(4, 17, dtype=dtype), integers(4, below=17)
        hidden = x.clone()
        hidden[:, 5:] = float("-inf")
        return [
            Sample("one class", (x[:, :1].clone(), torch.zeros(4, dtype=torch.int64), -100, "mean")),
            Sample("large logits", (x * 100, target, -100, "mean")),
            Sample("hidden classes", (hidden, target % 5, -100, "mean")),
            Sample("all ignored", (x, torch.full((4,), -100), -100, "mean")),
            Sample("no rows", (x[:0], target[:0], -100, "sum")),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        logits, target = meta(4096, 32000, dtype=dtype), meta(4096, dtype=torch.int64)
        return Sample("4096x32000 mean", (logits, target, -100, "mean"))

    def check(self, logits: Tensor, target: Tensor, ignore_index: int, reduction: str) -> str | None:
        if reduction not in REDUCTIONS:
            return f"there is no reduction {reduction!r}"
        if logits.dtype not in rows.FLOATS:
            return f"the dtype is {logits.dtype}, not a floating point one"
        if logits.dim() != 2:
            return f"the logits have {logits.dim()} dimensions, not rows and classes"
        if target.dtype != torch.int64:
            return f"the targets are {target.dtype}, not class numbers"
        if target.dim() != 1 or not same_size(target.shape[0], logits.shape[0]):
            return f"the targets' shape {tuple(target.shape)} is not the rows' ({logits.shape[0]},)"
        return None

    def cost(self, logits: Tensor, target: Tensor, ignore_index: int, reduction: str) -> Cost:
        moved = logits.numel() * logits.element_size() + target.numel() * 8
        return Cost(bytes=moved, flops=4 * logits.numel())
