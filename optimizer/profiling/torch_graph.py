"""Times an exported graph node by node, so that each row knows its module path and the user's own line.

Not for verdicts: the interpreter's own cost (some microseconds a node) is in the times; `overhead` says how much.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from optimizer.profiling.document import GraphNode, Operation
from optimizer.profiling.places import source_of

_GATHERS = {"embedding", "embedding_bag", "index_select", "gather", "index"}


def _attention_flops(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    flops: int = sdpa_flop_count(query, key, value)
    return flops


# the CPU's own flash attention has no formula in torch
_FORMULAS = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention_flops}


class Timed(fx.Interpreter):
    """Runs the graph and keeps each call's time."""

    def __init__(self, module: fx.GraphModule, wait: Callable[[], None]) -> None:
        super().__init__(module)
        self.ns: dict[fx.Node, list[int]] = {}
        self._wait = wait

    def run_node(self, n: fx.Node) -> Any:
        if n.op != "call_function":
            return super().run_node(n)
        began = time.perf_counter_ns()
        answer = super().run_node(n)
        self._wait()
        self.ns.setdefault(n, []).append(time.perf_counter_ns() - began)
        return answer


class Described(fx.Interpreter):
    """Runs the graph once and notes what each call reads, writes and computes."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.rows: dict[fx.Node, dict[str, Any]] = {}

    def run_node(self, n: fx.Node) -> Any:
        if n.op != "call_function":
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        counter = FlopCounterMode(display=False, custom_mapping=_FORMULAS)
        with counter:
            answer = super().run_node(n)
        outputs = [leaf for leaf in tree_leaves(answer) if isinstance(leaf, torch.Tensor)]
        self.rows[n] = {
            "shapes": [list(t.shape) for t in inputs],
            "dtypes": [str(t.dtype).removeprefix("torch.") for t in inputs],
            "flops": counter.get_total_flops() or None,
            "bytes": moved_bytes(operation_name(n), inputs, outputs),
        }
        return answer


def profile_graph(
    module: fx.GraphModule, tensors: Sequence[torch.Tensor], calls: int, device: str = "cpu"
) -> tuple[list[Operation], float]:
    """One row per node, and the median milliseconds of a profiled call. Getters of tuples and guards are left out.

    `tensors` are the graph's flat inputs. On a GPU each node is waited for, so that its time is its own.
    """
    wait = torch.cuda.synchronize if device == "cuda" else _no_wait
    described, timed = Described(module), Timed(module, wait)
    with torch.no_grad():
        described.run(*tensors, enable_io_processing=False)
        walls = []
        for call in range(calls + 2):  # the first two warm caches and allocator
            if call == 2:
                timed.ns.clear()
            began = time.perf_counter_ns()
            timed.run(*tensors, enable_io_processing=False)
            walls.append(time.perf_counter_ns() - began)
    rows = [
        Operation(
            op=operation_name(node),
            module=module_path(node),
            source=source_line(node),
            calls=1,
            self_ms=statistics.median(ns) / 1e6,
            share=0.0,
            **described.rows[node],
        )
        for node, ns in timed.ns.items()
        if isinstance(node.target, torch._ops.OperatorBase)
    ]
    return rows, statistics.median(walls[2:]) / 1e6


def _no_wait() -> None:
    """On a CPU a call returns when its work is done."""


def moved_bytes(op: str, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> int:
    """Bytes that must be read and written: none for a view, and of a table only the rows that are asked for."""
    owners = {t.untyped_storage().data_ptr() for t in inputs}
    written = sum(_held(t) for t in outputs)
    if outputs and all(t.untyped_storage().data_ptr() in owners for t in outputs) and not op.endswith("_"):
        return 0
    if op in _GATHERS and inputs:
        table, indices = inputs[0], sum(_held(t) for t in inputs[1:])
        rows = max((t.numel() for t in inputs[1:]), default=0)
        read = rows * table.shape[-1] * table.element_size() if op.startswith("embedding") else written
        return read + indices + written
    return sum(_held(t) for t in inputs) + written


def _held(tensor: torch.Tensor) -> int:
    # an expanded tensor is no larger than what it repeats
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


def operation_name(node: fx.Node) -> str:
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        namespace, _, name = target._schema.name.partition("::")
        return name if namespace == "aten" else f"{namespace}::{name}"
    return str(getattr(target, "__name__", target))


def module_path(node: fx.Node) -> str | None:
    """Such as `layers.0.attention`: the innermost module of the user's."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = stack[-1][0] if stack else ""
    return re.sub(r"^L\['self'\]\.?", "", path) or None


def source_line(node: fx.Node) -> str | None:
    """Such as `model.py:41`: the innermost frame outside torch."""
    return source_of(node.meta.get("stack_trace") or "")


def places_of(graph: fx.Graph) -> dict[str, GraphNode]:
    """Of every operation of the graph, by its node's name."""
    return {
        node.name: GraphNode(
            node=node.name, op=operation_name(node), module=module_path(node), source=source_line(node)
        )
        for node in graph.nodes
        if node.op == "call_function" and isinstance(node.target, torch._ops.OperatorBase)
    }
