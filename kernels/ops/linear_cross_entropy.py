"""The last linear layer and the softmax cross entropy behind it, without the logits in memory.

    logits[i] = x[i] @ weight.T;  loss[i] = log(sum over c of exp(logits[i, c])) - logits[i, target[i]]
    loss[i] = 0 where target[i] == ignore_index;  mean: sum of loss / number of rows not ignored;  sum: sum of loss

A program holds some rows and walks over the classes chunk by chunk, keeping the running maximum and sum. Logits are
accumulated in float32 and never rounded. The sum over rows is made by one program in a fixed order.

Sources: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018 (arXiv 1805.02867); Wijmans et al.,
"Cut Your Losses in Large-Vocabulary Language Models", 2024 (arXiv 2411.09009).
Not for: a bias, class weights, label smoothing. The backward pass makes the logits anew, all at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels import products
from kernels.inputs import integers, meta, normal
from kernels.ops.cross_entropy import REDUCTIONS, reduce_rows
from kernels.patterns import Found, Made, anything, aten, call, either, tensor, value, value_of
from kernels.spec import Configuration, Cost, Kernel, Launch, Sample, ceil_div, configuration, register, same_size
from kernels.spellings import linear, weight_of

tl: Any = None  # triton.language: `jit` sets it


def _kernel(  # type: ignore[no-untyped-def]
    x_ptr,
    weight_ptr,
    target_ptr,
    loss_ptr,
    n_rows,
    classes,
    width,
    ignore_index,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)  # int64: an offset may pass 2**31
    k = tl.arange(0, BLOCK_K)
    target = tl.load(target_ptr + row, mask=row < n_rows, other=ignore_index)
    largest = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    chosen = tl.zeros((BLOCK_M,), tl.float32)
    for start in range(0, classes, BLOCK_N):
        column = start + tl.arange(0, BLOCK_N)
        logits = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for first in range(0, width, BLOCK_K):
            along = first + k
            here = (row < n_rows)[:, None] & (along < width)[None, :]
            x = tl.load(x_ptr + row[:, None] * width + along[None, :], mask=here, other=0.0)
            there = (column < classes)[None, :] & (along < width)[:, None]
            at = weight_ptr + column[None, :].to(tl.int64) * width + along[:, None]
            logits = tl.dot(x, tl.load(at, mask=there, other=0.0), logits, input_precision="ieee")  # not TF32
        chosen += tl.sum(tl.where(column[None, :] == target[:, None], logits, 0.0), axis=1)
        logits = tl.where((column < classes)[None, :], logits, float("-inf"))
        larger = tl.maximum(largest, tl.max(logits, axis=1))
        total = total * tl.exp(largest - larger) + tl.sum(tl.exp(logits - larger[:, None]), axis=1)
        largest = larger
    loss = tl.where(target != ignore_index, tl.log(total) + largest - chosen, 0.0)
    tl.store(loss_ptr + row, loss, mask=row < n_rows)


_LOGITS = linear(tensor("x"))


@register
class LinearCrossEntropy(Kernel):
    name = "linear_cross_entropy"
    schema = "(Tensor x, Tensor weight, Tensor target, int ignore_index, str reduction) -> Tensor"
    tolerances = products.TOLERANCES
    breadth = 4
    patterns: ClassVar[dict[str, Any]] = {
        "cross_entropy(linear(x))": call(
            aten.cross_entropy_loss.default,
            either(_LOGITS, call((aten.view.default, aten.reshape.default), _LOGITS, [-1, anything("classes")])),
            tensor("target"),
            weight=anything("class_weight"),
            reduction=anything("reduction"),
            ignore_index=anything("ignore_index"),
            label_smoothing=anything("label_smoothing"),
        )
    }

    def arguments(self, found: Found) -> tuple[Any, ...] | str:
        if found.get("bias") is not None:
            return "the linear layer has a bias"
        if found["class_weight"] is not None:
            return "the classes are weighted"
        if found["label_smoothing"] != 0:
            return "the labels are smoothed"
        kind = REDUCTIONS[found["reduction"]]
        x, weight = found["x"], weight_of(found)
        if "classes" in found.values:
            if found["classes"] != value_of(weight).shape[0]:
                return "the logits are cut into other rows"
            x = Made(aten.reshape.default, (x, [-1, value(x).shape[-1]]))
        return x, weight, found["target"], found["ignore_index"], kind

    def reference(self, x: Tensor, weight: Tensor, target: Tensor, ignore_index: int, reduction: str) -> Tensor:
        logits = F.linear(x, weight)
        wide = logits.to(torch.promote_types(x.dtype, torch.float32))
        return F.cross_entropy(wide, target, ignore_index=ignore_index, reduction=reduction).to(x.dtype)

    def fake(self, x: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        return (torch.empty((), dtype=x.dtype, device=x.device),)

    def configurations(self, *args: Any) -> tuple[Configuration, ...]:
        return (
            configuration(num_warps=8, num_stages=3, BLOCK_M=64, BLOCK_N=128, BLOCK_K=32),
            configuration(num_warps=4, num_stages=3, BLOCK_M=16, BLOCK_N=64, BLOCK_K=64),
        )

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        x, weight, target, ignore_index, reduction = args
        n_rows, width = x.shape
        target = target.contiguous()
        losses = torch.empty(n_rows, dtype=torch.float32, device=x.device)
        found = [reduce_rows(losses, target, outputs[0], ignore_index, reduction)]
        if n_rows:
            given = (x.contiguous(), weight.contiguous(), target, losses, n_rows, weight.shape[0], width, ignore_index)
            grid = (ceil_div(n_rows, configuration["BLOCK_M"]),)
            options = (configuration.constants, configuration.num_warps, configuration.num_stages)
            found.insert(0, Launch(_kernel, grid, given, *options))
        return found

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        def given(n_rows: int, width: int, classes: int) -> tuple[Tensor, ...]:
            target = integers(n_rows, below=classes, seed=2)
            target[n_rows // 2] = -100
            weight = normal(classes, width, dtype=dtype, seed=1, scale=width**-0.5)
            return normal(n_rows, width, dtype=dtype), weight, target

        return [
            Sample("5x23 to 70 mean", (*given(5, 23, 70), -100, "mean")),
            Sample("70x40 to 9 sum", (*given(70, 40, 9), -100, "sum")),
            Sample("3x16 to 300 mean", (*given(3, 16, 300), -100, "mean")),
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        x, weight, target = normal(4, 8, dtype=dtype), normal(5, 8, dtype=dtype, seed=1), integers(4, below=5)
        return [
            Sample("one class", (x, weight[:1].clone(), target * 0, -100, "mean")),
            Sample("all ignored", (x, weight, torch.full((4,), -100), -100, "mean")),
            Sample("large logits", (x * 4, weight * 4, target, -100, "mean")),
            Sample("an ignored class number", (x, weight, target, 3, "sum")),
            Sample("no rows", (x[:0], weight, target[:0], -100, "sum")),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        given = (meta(4096, 2048, dtype=dtype), meta(32000, 2048, dtype=dtype), meta(4096, dtype=torch.int64))
        return Sample("4096x2048 to 32000 mean", (*given, -100, "mean"))

    def check(self, x: Tensor, weight: Tensor, target: Tensor, ignore_index: int, reduction: str) -> str | None:
        if reduction not in REDUCTIONS[1:]:
            return "the losses are not added up"
        if x.dim() != 2:
            return f"x has {x.dim()} dimensions, not rows and width"
        if target.dtype != torch.int64 or target.dim() != 1 or not same_size(target.shape[0], x.shape[0]):
            return f"the targets are {target.dtype} {tuple(target.shape)}, not one class number for each row"
        return products.why_not_linear(x, weight, None)

    def cost(self, x: Tensor, weight: Tensor, target: Tensor, ignore_index: int, reduction: str) -> Cost:
        moved = (x.numel() + weight.numel()) * x.element_size() + 8 * target.numel()
        logits = x.shape[0] * weight.shape[0]
        return Cost(bytes=moved, flops=2 * logits * x.shape[1] + 4 * logits)
