"""How long one linear layer takes alone in each precision, with packed weights, through the library that engines call.

An estimate of what a precision saves inside a model: there converting the input is fused with what made it, and
weights come from further away. Only measuring the whole candidate tells.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from optimizer.compiling.int8 import rounded_weight

SECONDS, LEAST_ROUNDS, MOST_ROUNDS = 0.1, 5, 200


def layer_ms(rows: int, weight: torch.Tensor, precisions: Sequence[str]) -> list[float]:
    """The fastest call in each precision; they take turns, so that what else runs disturbs all alike. `weight` is
    [out, in]. Raises RuntimeError where oneDNN has no such product."""
    source = torch.randn(rows, weight.shape[1], generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        calls = [CALLS[precision](source, weight) for precision in precisions]
        for call in calls:
            call()
        best, began = [float("inf")] * len(calls), time.perf_counter()
        for done in range(MOST_ROUNDS):
            for at, call in enumerate(calls):
                started = time.perf_counter()
                call()
                best[at] = min(best[at], time.perf_counter() - started)
            if done + 1 >= LEAST_ROUNDS and time.perf_counter() - began > SECONDS:
                break
    return [seconds * 1e3 for seconds in best]


def _float32(source: torch.Tensor, weight: torch.Tensor) -> Callable[[], Any]:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), source.shape[0])
    return lambda: torch.ops.mkldnn._linear_pointwise(source, packed, None, "none", [], "")


def _bfloat16(source: torch.Tensor, weight: torch.Tensor) -> Callable[[], Any]:
    low = weight.bfloat16().contiguous()
    packed = torch.ops.mkldnn._reorder_linear_weight(low, source.shape[0])

    def call() -> Any:
        return torch.ops.mkldnn._linear_pointwise(source.bfloat16(), packed, None, "none", [], "").float()

    return call


def _int8(source: torch.Tensor, weight: torch.Tensor) -> Callable[[], Any]:
    whole = rounded_weight(weight)[0].t().contiguous()
    given = torch.empty_like(source)
    low = torch.empty_like(source, dtype=torch.int8)

    def call() -> Any:
        # two passes over the input and one over the output, as fused code makes them
        torch.mul(source, 0.5, out=given)
        low.copy_(torch.mul(source, 30.0, out=given))
        return torch.mul(torch._int_mm(low, whole), 0.5)

    return call


CALLS: dict[str, Callable[[torch.Tensor, torch.Tensor], Callable[[], Any]]] = {
    "float32": _float32,
    "bfloat16": _bfloat16,
    "int8": _int8,
}
