"""A linear layer over a user's vector joined to each of many candidates', without the joined tensor.

    out[u, c] = concat(user[u], candidate[u, c]) @ weight.T + bias
              = (user[u] @ weight[:, :Du].T + bias) + candidate[u, c] @ weight[:, Du:].T

The user's part is computed once per user, not once per candidate. Accumulated in float32; the user's part stays in
float32 until the sum is rounded.

Source: the algebra of linear layers; what it is worth in serving is described for Meta's in-kernel broadcast, 2026.
Not for: candidates before the user, or more than two parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels import products, rows
from kernels.inputs import meta, normal
from kernels.patterns import Found, anything, aten, call, is_dim, optional, tensor
from kernels.spec import Configuration, Cost, Kernel, Launch, Sample, ceil_div, register, same_size
from kernels.spellings import repeated

tl: Any = None  # triton.language: `jit` sets it


def _kernel(  # type: ignore[no-untyped-def]
    x_ptr,
    weight_ptr,
    addend_ptr,
    out_ptr,
    n_rows,
    outputs,
    inputs,
    weight_row,
    weight_first,
    group,
    HAS_ADDEND: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]  # int64: may pass 2**31
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    k = tl.arange(0, BLOCK_K)
    product = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, inputs, BLOCK_K):
        along = first + k
        x = tl.load(x_ptr + row * inputs + along[None, :], mask=(row < n_rows) & (along < inputs)[None, :], other=0.0)
        there = weight_ptr + column * weight_row + weight_first + along[:, None]
        weight = tl.load(there, mask=(column < outputs) & (along < inputs)[:, None], other=0.0)
        product = tl.dot(x, weight, product, input_precision="ieee")  # not TF32: float32 is held to float32's error
    mask = (row < n_rows) & (column < outputs)
    if HAS_ADDEND:
        product += tl.load(addend_ptr + (row // group) * outputs + column, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * outputs + column, product.to(out_ptr.dtype.element_ty), mask=mask)


@register
class BroadcastLinear(Kernel):
    name = "broadcast_linear"
    schema = "(Tensor user, Tensor candidate, Tensor weight, Tensor? bias) -> Tensor"
    tolerances = products.TOLERANCES
    breadth = 4
    patterns: ClassVar[dict[str, Any]] = {
        "linear(cat(user.unsqueeze(1).expand(...), candidate))": call(
            aten.linear.default,
            call(aten.cat.default, [repeated(tensor("user")), tensor("candidate")], anything("joined")),
            tensor("weight"),
            bias=optional("bias"),
        )
    }

    def arguments(self, found: Found) -> tuple[Any, ...] | str:
        if found["candidate"].meta["val"].dim() != 3 or not is_dim(found["joined"], -1, 3):
            return "the two are not joined along the last of three dimensions"
        return found["user"], found["candidate"], found["weight"], found["bias"]

    def reference(self, user: Tensor, candidate: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        width = user.shape[-1]
        of_user = F.linear(user, weight[:, :width], bias)
        return of_user.unsqueeze(1) + F.linear(candidate, weight[:, width:])

    def fake(self, user: Tensor, candidate: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, ...]:
        shape = (candidate.shape[0], candidate.shape[1], weight.shape[0])
        return (torch.empty(shape, dtype=user.dtype, device=user.device),)

    def configurations(self, *args: Any) -> tuple[Configuration, ...]:
        return products.configurations()

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        user, candidate, weight, bias = args
        (out,) = outputs
        users, many, width = candidate.shape
        if not out.numel():
            return []
        user, candidate, weight = user.contiguous(), candidate.contiguous(), weight.contiguous()
        n_out, joined = weight.shape
        own = torch.empty((users, n_out), dtype=torch.float32, device=user.device)
        vector = user if bias is None else bias.contiguous()

        def product(x: Tensor, addend: Tensor, into: Tensor, n_rows: int, first: int, group: int, has: bool) -> Launch:
            grid = (ceil_div(n_rows, configuration["BLOCK_M"]), ceil_div(n_out, configuration["BLOCK_N"]))
            given = (x, weight, addend, into, n_rows, n_out, x.shape[-1], joined, first, group)
            constants = {"HAS_ADDEND": has, **configuration.constants}
            return Launch(_kernel, grid, given, constants, configuration.num_warps, configuration.num_stages)

        return [
            product(user, vector, own, users, 0, users, bias is not None),  # one group: the bias is its only row
            product(candidate, own, out, users * many, joined - width, many, True),
        ]

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        def layer(n_out: int, n_in: int) -> tuple[Tensor, ...]:
            return normal(n_out, n_in, dtype=dtype, seed=2, scale=n_in**-0.5), normal(n_out, dtype=dtype, seed=3)

        return [
            Sample("3x5, 7+9 to 11", (normal(3, 7, dtype=dtype), normal(3, 5, 9, dtype=dtype), *layer(11, 16))),
            Sample("2x40, 33+20 to 70", (normal(2, 33, dtype=dtype), normal(2, 40, 20, dtype=dtype), *layer(70, 53))),
            Sample("no bias", (normal(2, 4, dtype=dtype), normal(2, 3, 4, dtype=dtype), layer(5, 8)[0], None)),
        ]

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        user, some, weight = normal(2, 3, dtype=dtype), normal(2, 4, 5, dtype=dtype), normal(6, 8, dtype=dtype)
        return [
            Sample("one candidate", (user, some[:, :1].contiguous(), weight, None)),
            Sample("zeros", (user * 0, some * 0, weight, normal(6, dtype=dtype))),
            Sample("transposed", (user, normal(2, 5, 4, dtype=dtype).transpose(1, 2), weight, None)),
            Sample("no candidates", (user, some[:, :0], weight, None)),
        ]

    def typical(self, dtype: torch.dtype) -> Sample:
        weight, bias = meta(1024, 1024, dtype=dtype), meta(1024, dtype=dtype)
        given = (meta(16, 768, dtype=dtype), meta(16, 512, 256, dtype=dtype), weight, bias)
        return Sample("16 users of 512 candidates, 768+256 to 1024", given)

    def check(self, user: Tensor, candidate: Tensor, weight: Tensor, bias: Tensor | None) -> str | None:
        if user.dtype not in rows.FLOATS or not user.dtype == candidate.dtype == weight.dtype:
            return f"user, candidate and weight are {user.dtype}, {candidate.dtype} and {weight.dtype}"
        if user.dim() != 2 or candidate.dim() != 3 or weight.dim() != 2:
            return "the user is not [users, width] or the candidates are not [users, candidates, width]"
        if not same_size(user.shape[0], candidate.shape[0]):
            return "there are not as many users as rows of candidates"
        if not same_size(weight.shape[1], user.shape[1] + candidate.shape[2]):
            return f"a weight {tuple(weight.shape)} does not fit {user.shape[1]} + {candidate.shape[2]}"
        if bias is not None and (bias.dtype != user.dtype or bias.dim() != 1):
            return "the bias is not one value per output in the same dtype"
        return None

    def cost(self, user: Tensor, candidate: Tensor, weight: Tensor, bias: Tensor | None) -> Cost:
        users, many, width = candidate.shape
        n_out = weight.shape[0]
        moved = user.numel() + candidate.numel() + weight.numel() + users * many * n_out
        moved += 0 if bias is None else bias.numel()
        flops = 2 * users * n_out * user.shape[1] + users * many * n_out * (2 * width + 1)
        return Cost(bytes=moved * user.element_size(), flops=flops)
