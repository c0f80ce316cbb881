"""Which integers an ONNX input may hold: follows integer inputs through moves to the tables that they index.

The same two shadows as in `torch_ids` (which column each element came from, what was added to it), computed by onnx's
reference implementation node by node. Only integer values of known size are evaluated: no float operation is run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto
from onnx.reference import ReferenceEvaluator

UNKNOWN = -1
LARGEST_CONSTANT = 1 << 20  # elements; larger constants are tables: their shape matters, not their values
LARGEST_VALUE = 1 << 22
INTEGERS = (TensorProto.INT64, TensorProto.INT32, TensorProto.INT16, TensorProto.INT8, TensorProto.UINT8)
MOVES = frozenset({
    "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split", "Gather", "GatherElements", "Flatten",
    "Identity", "Expand", "Tile",
})  # fmt: skip
SAME = frozenset({"Cast", "Clip", "Max", "Min"})
EVALUATED = frozenset({
    "Add", "Sub", "Mul", "Div", "Mod", "Neg", "Min", "Max", "Cast", "Concat", "ConstantOfShape", "Equal", "Expand",
    "Gather", "Identity", "Less", "Not", "Range", "ReduceProd", "Reshape", "Size", "Slice", "Squeeze", "Tile",
    "Transpose", "Unsqueeze", "Where", "Split", "Flatten",
})  # fmt: skip


@dataclass(frozen=True)
class _Shadow:
    source: np.ndarray
    added: np.ndarray


def id_limits(model: ModelProto, shapes: dict[str, list[int]]) -> dict[str, list[int | None]]:
    """By input: the rows of the table that each column (of the last dimension) indexes, None where it indexes none."""
    return _Tracer(model, shapes).run()


class _Tracer:
    def __init__(self, model: ModelProto, shapes: dict[str, list[int]]) -> None:
        self.graph = model.graph
        self.opsets = {o.domain: o.version for o in model.opset_import}
        self.table_shapes = {t.name: list(t.dims) for t in model.graph.initializer}
        self.values: dict[str, np.ndarray] = {
            t.name: onnx.numpy_helper.to_array(t)
            for t in model.graph.initializer
            if t.data_type in INTEGERS and np.prod(t.dims) <= LARGEST_CONSTANT
        }
        self.shadows: dict[str, _Shadow] = {}
        self.shapes = dict(shapes)
        self.columns: dict[str, tuple[int, int]] = {}
        self.limits: dict[int, int] = {}
        total = 0
        for value in self.graph.input:
            if value.name in shapes and value.type.tensor_type.elem_type in INTEGERS:
                shape = shapes[value.name]
                fixed = len(shape) >= 2 and value.type.tensor_type.shape.dim[-1].HasField("dim_value")
                count = shape[-1] if fixed else 1
                source = np.broadcast_to(total + (np.arange(count) if fixed else np.zeros((), np.int64)), shape)
                self.columns[value.name] = (total, count)
                self.shadows[value.name] = _Shadow(np.array(source), np.zeros(shape, np.int64))
                total += count

    def run(self) -> dict[str, list[int | None]]:
        for node in self.graph.node:
            self._visit(node)
        found: dict[str, list[int | None]] = {}
        for name, (first, count) in self.columns.items():
            limits = [self.limits.get(column) for column in range(first, first + count)]
            if any(limit is not None for limit in limits):
                found[name] = limits
        return found

    def _visit(self, node: NodeProto) -> None:
        name = node.input[0] if node.input else ""
        if node.op_type == "Constant":
            self.values[node.output[0]] = self._evaluate(node, {})[0]
        elif node.op_type == "Shape" and (name in self.shapes or name in self.values or name in self.shadows):
            held = self.shadows[name].source if name in self.shadows else self.values.get(name)
            shape = list(held.shape) if held is not None else self.shapes[name]
            self.values[node.output[0]] = np.array(shape, np.int64)
        elif any(i in self.shadows for i in node.input):
            self._sink(node)
            self._move(node)
        elif node.op_type in EVALUATED and node.input and all(i in self.values for i in node.input if i):
            given = {i: self.values[i] for i in node.input if i}
            if sum(value.size for value in given.values()) <= LARGEST_VALUE:
                self.values.update(zip(node.output, self._evaluate(node, given), strict=True))

    def _sink(self, node: NodeProto) -> None:
        if node.op_type not in ("Gather", "GatherElements") or node.input[1] not in self.shadows:
            return
        table = node.input[0]
        shape = self.table_shapes.get(table)
        if shape is None and table in self.values:
            shape = list(self.values[table].shape)
        if shape:
            axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
            self._limit(self.shadows[node.input[1]], shape[axis])

    def _limit(self, shadow: _Shadow, rows: int) -> None:
        known = shadow.source != UNKNOWN
        source, added = shadow.source[known], shadow.added[known]
        offsets = {int(c): int(added[source == c].max()) for c in np.unique(source)}
        starts = sorted({*offsets.values(), rows})
        for column, offset in offsets.items():
            # one table for many columns, each shifted to its own rows: a column ends where the next one starts
            end = next((s for s in starts if s > offset), rows) if len(set(offsets.values())) > 1 else rows
            self.limits[column] = min(self.limits.get(column, end - offset), end - offset)

    def _move(self, node: NodeProto) -> None:
        first = self.shadows.get(node.input[0])
        others = {i: self.values.get(i) for i in node.input[1:] if i}
        if node.op_type in SAME and first is not None:
            self.shadows[node.output[0]] = first
        elif node.op_type in MOVES and first is not None and all(v is not None for v in others.values()):
            sources = self._evaluate(node, {node.input[0]: first.source, **others})
            added = self._evaluate(node, {node.input[0]: first.added, **others})
            self.shadows.update({o: _Shadow(a, b) for o, a, b in zip(node.output, sources, added, strict=True)})
        elif node.op_type == "Concat":
            self._join(node)
        elif node.op_type in ("Add", "Sub"):
            self._offset(node)

    def _join(self, node: NodeProto) -> None:
        parts = []
        for name in node.input:
            if name not in self.shadows and name not in self.values:
                return
            value = self.values.get(name, np.zeros(()))
            nothing = _Shadow(np.full(value.shape, UNKNOWN), np.zeros(value.shape, np.int64))
            parts.append(self.shadows.get(name, nothing))
        sources = self._evaluate(node, {n: p.source for n, p in zip(node.input, parts, strict=True)})
        added = self._evaluate(node, {n: p.added for n, p in zip(node.input, parts, strict=True)})
        self.shadows[node.output[0]] = _Shadow(sources[0], added[0])

    def _offset(self, node: NodeProto) -> None:
        """`ids + constant`, `constant + ids`, `ids - constant`."""
        left, right = node.input
        if node.op_type == "Sub" and left not in self.shadows:
            return
        tracked, other = (left, right) if left in self.shadows else (right, left)
        if other not in self.values:
            return
        shadow, constant = self.shadows[tracked], self.values[other]
        added = shadow.added + constant if node.op_type == "Add" else shadow.added - constant
        self.shadows[node.output[0]] = _Shadow(np.array(np.broadcast_to(shadow.source, added.shape)), added)

    def _evaluate(self, node: NodeProto, given: dict[str, Any]) -> list[np.ndarray]:
        return list(ReferenceEvaluator(node, opsets=self.opsets).run(None, given))
