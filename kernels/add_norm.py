"""What every residual add + norm shares: all but the formula. A new one is a file in `ops/` with an AddNorm in it.

    total  = x + residual                                                  (rounded to x's dtype)
    normed = unit * weight + bias,  unit = (total, centred or not) * scale

with weight and bias along the row, each where the kernel has it. Backward, with g = d_normed * weight:

    d_total = d_sum + scale * (g - unit * mean(g * unit)), and g - mean(g) in place of g when the row was centred
    d_x = d_residual = d_total;  d_weight = sum over rows of d_normed * unit;  d_bias = sum over rows of d_normed

Not for: a sum that broadcasts, or a norm over more than the last dimension.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from kernels import norms, rows
from kernels.inputs import meta
from kernels.spec import Configuration, Cost, Kernel, Launch, Sample


class AddNorm(Kernel):
    """Arguments are `x, residual, *parameters, eps`; outputs are `normed, total`.

    `triton` takes pointers to x, residual, each parameter, normed and total, then n_rows, width, eps, and the constants
    HAS_<PARAMETER>, ROWS, COLUMNS, WHOLE (see `rows.tile`).
    """

    tolerances = rows.TOLERANCES
    breadth = 3
    triton: ClassVar[Callable[..., None]]
    parameters: ClassVar[tuple[str, ...]]
    centres: ClassVar[bool]
    usual_eps: ClassVar[float]
    flops_per_element: ClassVar[int]

    @abstractmethod
    def unit_and_scale(self, total: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        """The row before weight and bias, and what it was multiplied with. For the gradient: plain torch."""

    def configurations(self, *args: Any) -> tuple[Configuration, ...]:
        return rows.configurations(args[0].shape[-1])

    def launches(self, outputs: Sequence[Tensor], configuration: Configuration, *args: Any) -> list[Launch]:
        x, residual, *parameters, eps = args
        n_rows, width = rows.rows_of(x)
        x, residual = x.contiguous(), residual.contiguous()
        given = [x if p is None else p.contiguous() for p in parameters]
        has = {f"HAS_{n.upper()}": p is not None for n, p in zip(self.parameters, parameters, strict=True)}
        return rows.launches(
            self.triton, (x, residual, *given, *outputs, n_rows, width, eps), n_rows, width, configuration, **has
        )

    def fake(self, *args: Any) -> tuple[Tensor, ...]:
        x = args[0]
        normed, total = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for _ in range(2))
        return normed, total

    def setup_context(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _, _, *parameters, ctx.eps = inputs
        ctx.save_for_backward(output[1], *parameters)

    def backward(self, ctx: Any, *grads: Tensor | None) -> Any:
        total, *parameters = ctx.saved_tensors
        grad_normed, grad_total = grads
        wide = total.to(torch.promote_types(total.dtype, torch.float32))
        grad = torch.zeros_like(wide) if grad_total is None else grad_total.to(wide.dtype)
        of_parameters: list[Tensor | None] = [None] * len(parameters)
        if grad_normed is not None:
            grad_normed = grad_normed.to(wide.dtype)
            unit, scale = self.unit_and_scale(wide, ctx.eps)
            given = dict(zip(self.parameters, parameters, strict=True))
            weight = given.get("weight")
            inner = grad_normed if weight is None else grad_normed * weight.to(wide.dtype)
            along = unit * (inner * unit).mean(-1, keepdim=True)
            grad = grad + scale * ((inner - inner.mean(-1, keepdim=True) if self.centres else inner) - along)
            through = {"weight": grad_normed * unit, "bias": grad_normed}
            of_parameters = [
                None if p is None else through[name].reshape(-1, p.shape[0]).sum(0).to(p.dtype)
                for name, p in given.items()
            ]
        grad = grad.to(total.dtype)
        return grad, grad, *of_parameters, None

    def samples(self, dtype: torch.dtype) -> list[Sample]:
        return norms.samples(dtype, parameters=len(self.parameters), eps=self.usual_eps)

    def edges(self, dtype: torch.dtype) -> list[Sample]:
        return norms.edges(dtype, parameters=len(self.parameters), eps=self.usual_eps)

    def typical(self, dtype: torch.dtype) -> Sample:
        x, parameter = meta(8192, 4096, dtype=dtype), meta(4096, dtype=dtype)
        return Sample("8192x4096", (x, x, *[parameter] * len(self.parameters), self.usual_eps))

    def check(self, *args: Any) -> str | None:
        x, residual, *parameters, _ = args
        return rows.why_not(x, residual, dict(zip(self.parameters, parameters, strict=True)))

    def cost(self, *args: Any) -> Cost:
        x, _, *parameters, _ = args
        moved = sum(p.numel() * p.element_size() for p in parameters if p is not None)
        return Cost(bytes=4 * x.numel() * x.element_size() + moved, flops=self.flops_per_element * x.numel())
