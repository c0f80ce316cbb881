"""Numbers of many features become the numbers of their buckets, in one launch for all features.

    out[..., f] = how many of boundaries[f] are < x[..., f]        (<= with right=True); NaN lies beyond the last

Boundaries ascend; they are one vector for all features, or one row for each. Exact: numbers are compared in float32.

Source: the definition of `torch.bucketize`; fused over features as in Zong et al., "RecIS", 2025 (alibaba/RecIS).
Not for: features with different numbers of boundaries (pad the rows with infinity).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from kernels import rows
from kernels.inputs import meta, normal
from kernels.patterns import Found, anything, aten, call, tensor, value
from kernels.spec import Configuration, Cost, Kernel, Launch, Sample, ceil_div, configuration, register, same_size

tl: Any = None  # triton.language: `jit` sets it


def _kernel(  # type: ignore[no-untyped-def]
    x_ptr,
    boundaries_ptr,
    out_ptr,
    count,
    features,
    boundaries,
    PER_FEATURE: tl.constexpr,
    RIGHT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    start = tl.zeros((BLOCK,), tl.int64)
    if PER_FEATURE:
        start = (at % features) * boundaries
    low = tl.zeros((BLOCK,), tl.int64)
    high = low + boundaries
    length = boundaries
    while length > 0:  # halves the open interval until it is empty
        middle = (low + high) // 2
        open_ = low < high
        edge = tl.load(boundaries_ptr + start + middle, mask=mask & open_, other=0.0).to(tl.float32)
        if RIGHT:
            before = x < edge
        else:
            before = x <= edge
        high = tl.where(open_ & before, middle, high)  # NaN is before nothing
        low = tl.where(open_ & (before == 0), middle + 1, low)
        length = length // 2
    tl.store(out_ptr + at, low, mask=mask)


@register
class Bucketize(Kernel):
    name = "bucketize"
    schema = "(Tensor x, Tensor boundaries, bool right) -> Tensor"
    tolerances = rows.EXACT
    reasons: ClassVar[dict[str, str]] = {
        "few_bytes_in_flight": (
            "The search halves the boundaries: where a step reads hangs on what the step before found, so a "
            "thread has one load under way. The boundaries are few and stay in the cache."
        ),
        "narrow_loads": (
            "Which boundary a value is compared with differs from thread to thread, so those loads are of one "
            "value each whatever the tile."
        ),
    }
    differentiable = False
    patterns: ClassVar[dict[str, Any]] = {
        "aten.bucketize": call(aten.bucketize.Tensor, tensor("x"), tensor("boundaries"), right=anything("right")),
        "aten.searchsorted of one vector": call(
            aten.searchsorted.Tensor, tensor("boundaries"), tensor("x"), right=anything("right"), side=anything("side")
        ),
    }

    def arguments(self, found: Found) -> tuple[Any, ...] | str:
        if value(found["boundaries"]).dim() != 1:
            return "each row is searched in boundaries of its own"
        return found["x"], found["boundaries"], bool(found["right"] or found.get("side") == "right")

    def reference(self, x: Tensor, boundaries: Tensor, right: bool) -> Tensor:
        if boundaries.dim() == 1:
            return torch.bucketize(x, boundaries, right=right)
        flat = x.reshape(-1, x.shape[-1]).T.contiguous()
        return torch.searchsorted(boundaries.contiguous(), flat, right=right).T.reshape(x.shape)

    def fake(self, x: Tensor, boundaries: Tensor, right: bool) -> tuple[Tensor, ...]:
        return (torch.empty(x.shape, dtype=torch.int64, device=x.device),)

    def configurations(self, *args: Any) -> tuple[Configuration, ...]:
        return (configuration(BLOCK=512), configuration(num_warps=8, BLOCK=2048))

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        x, boundaries, right = args
        count = x.numel()
        if not count:
            return []
        constants = {"PER_FEATURE": boundaries.dim() == 2, "RIGHT": right, **configuration.constants}
        grid = (ceil_div(count, configuration["BLOCK"]),)
        features = x.shape[-1] if x.dim() else 1
        given = (x.contiguous(), boundaries.contiguous(), *outputs, count, features, boundaries.shape[-1])
        return [Launch(_kernel, grid, given, constants, configuration.num_warps)]

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        one = torch.linspace(-2, 2, 9).to(dtype)
        each = torch.stack([one[:4], one[2:6], one[5:9]])
        return [
            Sample("5x7", (normal(5, 7, dtype=dtype), one, False)),
            Sample("33x3, rows of their own", (normal(33, 3, dtype=dtype), each, False)),
            Sample("2x5x3, right", (normal(2, 5, 3, dtype=dtype), each, True)),
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        edges = torch.tensor([-1.0, 0.0, 0.0, 2.0]).to(dtype)
        odd = torch.tensor([-1.0, 0.0, 2.0, float("inf"), float("-inf"), float("nan")]).to(dtype)
        return [
            Sample("on the boundaries", (odd, edges, False)),
            Sample("on the boundaries, right", (odd, edges, True)),
            Sample("one boundary", (odd, edges[:1].clone(), False)),
            Sample("no boundaries", (odd, edges[:0], False)),
            Sample("nothing", (odd[:0], edges, False)),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        return Sample("8192x39 into 64", (meta(8192, 39, dtype=dtype), meta(39, 63, dtype=dtype), False))

    def check(self, x: Tensor, boundaries: Tensor, right: bool) -> str | None:
        if x.dtype not in rows.FLOATS or boundaries.dtype != x.dtype:
            return f"x is {x.dtype}, the boundaries are {boundaries.dtype}: not one float dtype"
        if boundaries.dim() == 1:
            return None
        if boundaries.dim() != 2 or x.dim() < 1 or not same_size(boundaries.shape[0], x.shape[-1]):
            return f"boundaries {tuple(boundaries.shape)} are not one row for each feature of x {tuple(x.shape)}"
        return None

    def cost(self, x: Tensor, boundaries: Tensor, right: bool) -> Cost:
        moved = (x.numel() + boundaries.numel()) * x.element_size() + 8 * x.numel()
        return Cost(bytes=moved, flops=x.numel() * int(boundaries.shape[-1]).bit_length())
