"""What one generated kernel reads, writes and computes, taken from Inductor's own loops before they become Triton.

Elements are counted once: those that an index can reach, no more than the buffer has. A gather reads a row for each
index, as if all were distinct. Loads under a mask (the parts of a concatenation) share the elements of their loop.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

# Of a loop's body: what moves, names or converts and computes nothing.
_NO_ARITHMETIC = frozenset({
    "load", "load_seed", "store", "store_reduction", "index_expr", "constant", "to_dtype", "to_dtype_bitcast",
    "get_index", "masked", "indirect_indexing", "check_bounds", "output", "bucketize", "device_assert_async",
    "partial_accumulate", "where", "identity",
})  # fmt: skip


@dataclass(frozen=True)
class Traffic:
    """Of one launch, at the sizes that are asked for. `origins`: the graph's nodes that went into it."""

    bytes: int
    flops: int
    origins: tuple[Any, ...]


def traffic(node_schedule: Sequence[Any], kernel: Any) -> Traffic:
    """Call it while Inductor generates the kernel: its graph must be the current one."""
    from torch._inductor.scheduler import SchedulerNode

    nodes = [node for node in node_schedule if isinstance(node, SchedulerNode)]
    moved = _buffers(kernel)
    reads: dict[str, dict[Any, int]] = defaultdict(dict)
    writes: dict[str, dict[Any, int]] = defaultdict(dict)
    flops = 0
    origins: dict[Any, None] = {}
    for node in nodes:
        numel = _number(math.prod(size for group in node._body.sizes for size in group))
        flops += numel * sum(count for name, count in node._body.op_counts.items() if name not in _NO_ARITHMETIC)
        origins.update(dict.fromkeys(node.node.get_origins()))
        masked = _masked(node._body)
        counted = {dep: _elements(dep, numel) for dep in node.read_writes.reads if dep.name in moved}
        # each element of the loop takes one of the parts under masks
        in_parts = sum(count for dep, count in counted.items() if dep.name in masked)
        for dep, count in counted.items():
            share = min(1.0, numel / in_parts) if dep.name in masked else 1.0
            reads[dep.name][_index(dep)] = math.ceil(count * share)
        for dep in node.read_writes.writes:
            if dep.name in moved:
                writes[dep.name][_index(dep)] = _elements(dep, numel)
    total = sum(_bytes(name, indices.values()) for side in (reads, writes) for name, indices in side.items())
    return Traffic(total, flops, tuple(origins))


def _buffers(kernel: Any) -> set[str]:
    """Those that the kernel is given: what it keeps in registers is not moved."""
    from torch._inductor.codegen.common import RemovedArg

    args = kernel.args
    names = set(args.input_buffers)
    names |= {name for name, inner in args.output_buffers.items() if not isinstance(inner, RemovedArg)}
    for name, inner in args.inplace_buffers.items():
        if not isinstance(inner, RemovedArg):
            names |= {name, *inner.other_names}
    return names - set(kernel.removed_buffers)


def _masked(body: Any) -> set[str]:
    """Buffers that are read in masked blocks only."""
    inside = {_loaded(node) for block in body.subblocks.values() for node in block.graph.nodes}
    outside = {_loaded(node) for node in body.root_block.graph.nodes}
    return {name for name in inside - outside if name is not None}


def _loaded(node: Any) -> str | None:
    return str(node.args[1]) if node.op == "call_method" and node.target == "load" else None


def _elements(dep: Any, numel: int) -> int:
    from torch._inductor.dependencies import MemoryDep, WeakDep
    from torch._inductor.virtualized import V

    if isinstance(dep, WeakDep):
        return 0
    whole = _number(V.graph.get_numel(dep.name))
    if not isinstance(dep, MemoryDep):
        return whole
    if dep.is_indirect():
        return min(whole, numel)
    used = dep.index.free_symbols
    return min(whole, _number(math.prod(s for v, s in zip(dep.var_names, dep.size, strict=True) if v in used)))


def _index(dep: Any) -> Any:
    return getattr(dep, "index", None) if type(dep).__name__ == "MemoryDep" else dep


def _bytes(name: str, elements: Iterable[int]) -> int:
    from torch._inductor.utils import get_dtype_size
    from torch._inductor.virtualized import V

    size: int = get_dtype_size(V.graph.get_dtype(name))
    return size * min(_number(V.graph.get_numel(name)), sum(elements))


def _number(expression: Any) -> int:
    from torch._inductor.virtualized import V

    return int(V.graph.sizevars.optimization_hint(expression))
