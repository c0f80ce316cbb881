"""Raw ids of many features become rows of their tables: one launch of remainders for all features.

    out[..., f] = ids[..., f] mod sizes[f]        (never negative, as Python's %)

Exact integer arithmetic.

Source: Weinberger et al., "Feature Hashing for Large Scale Multitask Learning", 2009 (arXiv 0902.2206).
Not for: ids that still are strings, sizes of zero, or unsigned ids beyond 2**63.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from kernels import rows
from kernels.inputs import integers, meta
from kernels.patterns import Found, aten, call, flat, tensor
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
    same_size,
)

tl: Any = None  # triton.language: `jit` sets it


def _kernel(ids_ptr, sizes_ptr, out_ptr, count, features, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    ids = tl.load(ids_ptr + at, mask=mask, other=0)
    sizes = tl.load(sizes_ptr + at % features, mask=mask, other=1)
    rest = ids % sizes
    rest = tl.where((rest < 0) & (sizes > 0), rest + sizes, rest)  # % is C's on a GPU: the sign is the id's
    tl.store(out_ptr + at, rest, mask=mask)


@register
class HashFeatures(Kernel):
    name = "hash_features"
    schema = "(Tensor ids, Tensor sizes) -> Tensor"
    tolerances: ClassVar[dict[torch.dtype, Tolerance]] = {
        torch.int64: rows.EXACT[torch.float32],
        torch.int32: rows.EXACT[torch.float32],
    }
    differentiable = False
    patterns: ClassVar[dict[str, Any]] = {"ids % sizes": call(aten.remainder.Tensor, tensor("ids"), tensor("sizes"))}

    def arguments(self, found: Found) -> tuple[Any, ...] | str:
        return found["ids"], flat(found["sizes"])

    def reference(self, ids: Tensor, sizes: Tensor) -> Tensor:
        return torch.remainder(ids, sizes)

    def fake(self, ids: Tensor, sizes: Tensor) -> tuple[Tensor, ...]:
        return (torch.empty(ids.shape, dtype=ids.dtype, device=ids.device),)

    def configurations(self, *args: Any) -> tuple[Configuration, ...]:
        return (configuration(BLOCK=1024), configuration(num_warps=8, BLOCK=4096))

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        ids, sizes = args
        count = ids.numel()
        if not count:
            return []
        grid = (ceil_div(count, configuration["BLOCK"]),)
        given = (ids.contiguous(), sizes.contiguous(), *outputs, count, sizes.shape[0])
        return [Launch(_kernel, grid, given, configuration.constants, configuration.num_warps)]

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        sizes = torch.tensor([7, 1000, 3]).to(dtype)
        return [
            Sample("5x3", (integers(5, 3, below=10**6).to(dtype), sizes)),
            Sample("2x400x3", (integers(2, 400, 3, below=10**9).to(dtype), sizes)),
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        sizes = torch.tensor([7, 1]).to(dtype)
        most = torch.iinfo(dtype).max
        return [
            Sample("negative", (torch.tensor([[-1, -1], [-7, -8]]).to(dtype), sizes)),
            Sample("the largest and smallest", (torch.tensor([[most, most], [-most - 1, 0]]).to(dtype), sizes)),
            Sample("nothing", (torch.zeros(0, 2, dtype=dtype), sizes)),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        return Sample("8192x64", (meta(8192, 64, dtype=dtype), meta(64, dtype=dtype)))

    def check(self, ids: Tensor, sizes: Tensor) -> str | None:
        if ids.dtype not in (torch.int64, torch.int32) or sizes.dtype != ids.dtype:
            return f"the ids are {ids.dtype}, the sizes {sizes.dtype}: not one integer dtype"
        if sizes.dim() != 1 or ids.dim() < 1 or not same_size(sizes.shape[0], ids.shape[-1]):
            return f"sizes {tuple(sizes.shape)} are not one for each feature of ids {tuple(ids.shape)}"
        return None

    def cost(self, ids: Tensor, sizes: Tensor) -> Cost:
        return Cost(bytes=(2 * ids.numel() + sizes.numel()) * ids.element_size(), flops=0)
