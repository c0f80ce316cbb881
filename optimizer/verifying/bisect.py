"""Names the first operation at which a rewritten graph departs from the original. Both are run in float64.

In float64 rounding does not hide a wrong rewrite, so any difference is one of meaning. Nodes are known by their values,
never by their names: an export names all nodes anew, and a rewrite adds some of its own. Behind the last values that
both graphs have, what is alike in both is what the rewrite left alone: the first of it has another value because of
what comes before it. The answer is in the original's names and lines. Not for ONNX graphs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.fx import GraphModule, Interpreter, Node
from torch.utils import _pytree as pytree

from optimizer.profiling.places import source_of
from optimizer.verifying.reference import TorchReference

# weights that a rewrite folds are float32 again, and each stands for a sum or a product rounded once
DIFFERENCE = 3e-7


class _Recorder(Interpreter):
    """Runs a graph and keeps the value of every operation that gives a tensor, in graph order."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module, garbage_collect_values=True)
        self.seen: dict[Node, torch.Tensor] = {}

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if n.op == "call_function" and isinstance(value, torch.Tensor):
            self.seen[n] = value.clone()
        return value

    def outputs(self) -> list[Node]:
        """The operations whose values are handed back; inputs and constants are no operations."""
        output = next(n for n in reversed(self.module.graph.nodes) if n.op == "output")
        return [n for n in pytree.tree_leaves(output.args) if isinstance(n, Node)]


class _Values:
    """Values to look for: `v in values`. By shape, then by their size, then one by one."""

    def __init__(self, seen: Collection[torch.Tensor]) -> None:
        self._known: dict[tuple[Any, ...], list[tuple[float, torch.Tensor]]] = {}
        for value in seen:
            self._known.setdefault(_form(value), []).append((_size(value), value))

    def __contains__(self, value: torch.Tensor) -> bool:
        size = _size(value)
        return any(
            abs(size - other_size) <= 4 * DIFFERENCE * size and _distance(value, other) <= DIFFERENCE
            for other_size, other in self._known.get(_form(value), [])
        )


def first_difference(original: Path, rewritten: Path, arrays: list[np.ndarray]) -> str | None:
    """`operation (node, file:line)` of the original graph, or None when both give the same answers."""
    true, mine = _record(original, arrays), _record(rewritten, arrays)
    pairs = [
        (_distance(mine.seen[other], true.seen[output]), output, other)
        for output, other in zip(true.outputs(), mine.outputs(), strict=True)
        if output in true.seen and other in mine.seen  # else an input or a constant is handed back
    ]
    distance, output, other = max(pairs, key=lambda pair: pair[0], default=(0.0, None, None))
    if output is None or other is None or distance <= DIFFERENCE:
        return None
    return _words(_guilty(_behind(output, true.seen, mine.seen), _behind(other, mine.seen, true.seen), output))


def _record(path: Path, arrays: list[np.ndarray]) -> _Recorder:
    reference = TorchReference(path)
    recorder = _Recorder(reference.module)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad():
            recorder.run(*reference.stage(arrays))
    finally:
        torch.set_default_dtype(before)
    return recorder


def _behind(
    output: Node, seen: Mapping[Node, torch.Tensor], others: Mapping[Node, torch.Tensor]
) -> dict[Node, tuple[Any, ...]]:
    """The operations from which `output` can be reached without passing a value that the other graph has as well, in
    graph order, each with what it is known by."""
    known = _Values(others.values())
    found, pending = {output}, [output]
    while pending:
        for node in pending.pop().all_input_nodes:
            if node.op != "call_function" or node in found or (node in seen and seen[node] in known):
                continue
            found.add(node)
            pending.append(node)
    ordered = [node for node in output.graph.nodes if node in found]
    return {node: (node.target, _form(seen[node]) if node in seen else None) for node in ordered}


def _guilty(original: Mapping[Node, Any], rewritten: Mapping[Node, Any], output: Node) -> Node:
    """Where what is alike in both begins: that operation itself when its inputs are right, else what it is given."""
    matcher = SequenceMatcher(None, list(original.values()), list(rewritten.values()), autojunk=False)
    alike = next((block for block in matcher.get_matching_blocks() if block.size), None)
    if alike is None:
        return output
    before, first = list(original)[: alike.a], list(original)[alike.a]
    given = [node for node in before if node in first.all_input_nodes]
    return given[-1] if given else first


def _form(value: torch.Tensor) -> tuple[Any, ...]:
    return (tuple(value.shape), value.dtype)


def _size(value: torch.Tensor) -> float:
    """Two values that are alike have alike sizes; it need not tell others apart."""
    return float(torch.nan_to_num(value.double(), nan=0.0, posinf=0.0, neginf=0.0).norm())


def _distance(value: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference, in units of what is expected there and of its spread; infinite where NaN and infinities
    are at other places. Of integers the share that differs."""
    if _form(value) != _form(expected):
        return float("inf")
    if not value.numel():
        return 0.0
    if not value.is_floating_point():
        return float((value != expected).double().mean())
    finite = torch.isfinite(expected)
    if not torch.equal(torch.isfinite(value), finite) or not _same(value[~finite], expected[~finite]):
        return float("inf")
    value, expected = value[finite], expected[finite]
    if not value.numel():
        return 0.0
    unit = expected.abs() + expected.std(correction=0)
    return float(((value - expected).abs() / torch.where(unit > 0, unit, 1.0)).max())


def _same(value: torch.Tensor, expected: torch.Tensor) -> bool:
    return bool(torch.isclose(value, expected, equal_nan=True).all())


def _words(node: Node) -> str:
    source = source_of(node.meta.get("stack_trace") or "")
    return f"{node.target} ({node.name}{f', {source}' if source else ''})"
