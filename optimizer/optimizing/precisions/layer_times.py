"""How long one layer takes alone in each precision, linear ones with packed weights, through the library that engines
call.

An estimate of what a precision saves inside a model: there converting the input is fused with what made it, and
weights come from further away. Only measuring the whole candidate tells. In bfloat16 no conversion is counted: between
two such layers there is none, and elsewhere it is part of what reads or writes the value.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from optimizer.compiling.int8 import rounded_weight, rounded_weight_only

SECONDS, LEAST_ROUNDS, MOST_ROUNDS = 0.1, 5, 200


def layer_ms(rows: int, weight: torch.Tensor, precisions: Sequence[str]) -> list[float]:
    """The fastest call in each precision; they take turns, so that what else runs disturbs all alike. `weight` is
    [out, in]. Raises RuntimeError where oneDNN has no such product."""
    source = torch.randn(rows, weight.shape[1], generator=torch.Generator().manual_seed(0))
    return _fastest([CALLS[precision](source, weight) for precision in precisions])


def operation_ms(node: fx.Node, values: Mapping[fx.Node, Any]) -> list[float]:
    """The fastest call of any operation in float32 and in bfloat16. `values`: of its inputs."""

    def prepared(convert: Callable[[Any], Any]) -> Callable[[], Any]:
        given = {n: pytree.tree_map(convert, values[n]) for n in node.all_input_nodes}
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: given[n])
        return lambda: node.target(*args, **kwargs)  # type: ignore[operator]

    return _fastest([prepared(lambda value: value), prepared(in_bfloat16)])


def in_bfloat16(value: Any) -> Any:
    """Its float32 values in bfloat16."""
    return value.bfloat16() if isinstance(value, torch.Tensor) and value.dtype == torch.float32 else value


def _fastest(calls: Sequence[Callable[[], Any]]) -> list[float]:
    """In milliseconds; the calls take turns. On one thread: engines are built meanwhile, and threads that wait for one
    that does not run would be all that is measured."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            return _taking_turns(calls)
    finally:
        torch.set_num_threads(threads)


def _taking_turns(calls: Sequence[Callable[[], Any]]) -> list[float]:
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
    return _float32(source.bfloat16(), weight.bfloat16())


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


def _int8_weights(source: torch.Tensor, weight: torch.Tensor) -> Callable[[], Any]:
    low, (whole, scale) = source.bfloat16(), rounded_weight_only(weight)
    return lambda: torch._weight_int8pack_mm(low, whole, scale)


CALLS: dict[str, Callable[[torch.Tensor, torch.Tensor], Callable[[], Any]]] = {
    "float32": _float32,
    "bfloat16": _bfloat16,
    "int8": _int8,
    "int8_weights": _int8_weights,
}
