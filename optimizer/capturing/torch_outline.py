"""Makes the outline of a captured program. Of control flow only the outer graph; None where it has too many nodes."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from optimizer.capturing import torch_graph
from optimizer.capturing.outline import MAX_NODES, Outline, OutlineNode
from optimizer.capturing.torch_inputs import dtype_name
from optimizer.capturing.torch_inspection import named, symbol_names
from optimizer.profiling.places import source_of
from optimizer.profiling.torch_graph import module_path, operation_name
from optimizer.spec import Workload

KINDS = ("placeholder", "get_attr", "call_function")
# what the trace fixed anyway, and a user of every tensor that is cast
ASSERTION = torch.ops.aten._assert_tensor_metadata.default
MOST_LISTED = 16  # numbers of one argument


def outline(program: ExportedProgram, workload: Workload) -> Outline | None:
    nodes = [node for node in program.graph.nodes if node.op in KINDS and node.target is not ASSERTION]
    if len(nodes) > MAX_NODES:
        return None
    reader = _Reader(program, workload)
    return Outline(
        nodes=[reader.node(node) for node in nodes],
        outputs=[str(name) for name in program.graph_signature.user_outputs if isinstance(name, str)],
    )


class _Reader:
    def __init__(self, program: ExportedProgram, workload: Workload) -> None:
        self.inputs = {node.name for node in torch_graph.user_placeholders(program)}
        self.names = symbol_names(program, workload)
        self.measured = {symbol: workload.sizes()[name] for symbol, name in self.names.items()}

    def node(self, node: fx.Node) -> OutlineNode:
        kind = "call" if node.op == "call_function" else "input" if node.name in self.inputs else "weight"
        value = node.meta.get("val")
        if isinstance(value, list | tuple):
            value = next((one for one in value if isinstance(one, torch.Tensor)), None)
        tensor = value if isinstance(value, torch.Tensor) else None
        sizes = list(tensor.shape) if tensor is not None else []
        return OutlineNode(
            name=node.name,
            kind=kind,  # type: ignore[arg-type]
            op=operation_name(node)[:200] if kind == "call" else "",
            module=module_path(node),
            source=source_of(node.meta.get("stack_trace") or ""),
            takes=[one.name for one in _nodes_in(node)],
            given=_given(node) if kind == "call" else {},
            shape=[size if isinstance(size, int) else named(str(size.node.expr), self.names) for size in sizes],
            sizes=[self._measured(size) for size in sizes],
            dtype=dtype_name(tensor.dtype) if tensor is not None else None,
            view=_is_view(node, tensor),
        )

    def _measured(self, size: Any) -> int | None:
        if isinstance(size, int):
            return size
        if free_unbacked_symbols(size):
            return None
        expression = size.node.expr
        known = {symbol: self.measured.get(str(symbol)) for symbol in expression.free_symbols}
        return None if None in known.values() else int(expression.subs(known))


def _nodes_in(node: fx.Node) -> list[fx.Node]:
    """With repetitions: `mul(x, x)` takes x twice."""
    leaves = pytree.tree_leaves((node.args, node.kwargs))
    return [one for one in leaves if isinstance(one, fx.Node)]


def _given(node: fx.Node) -> dict[str, Any]:
    target = node.target
    schema = target._schema.arguments if isinstance(target, torch._ops.OpOverload) else ()
    arguments: dict[str, Any] = {a.name: a.default_value for a in schema if a.default_value is not None}
    arguments |= dict(zip((a.name for a in schema), node.args, strict=False)) | node.kwargs
    if not schema:
        arguments |= {f"arg{index}": value for index, value in enumerate(node.args)}
    plain = {name: _plain(value) for name, value in arguments.items()}
    return {name: value for name, value in plain.items() if value is not None}


def _plain(value: Any) -> Any:
    """None for what is no plain value: nodes, symbolic sizes, lists with either."""
    if isinstance(value, bool | int | float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, str):
        return value[:200]
    if isinstance(value, torch.dtype):
        return dtype_name(value)
    if isinstance(value, list | tuple) and value and len(value) <= MOST_LISTED:
        listed = [_plain(one) for one in value]
        return listed if None not in listed else None
    return None


def _is_view(node: fx.Node, tensor: torch.Tensor | None) -> bool:
    """By the storage of the fake values, which knows whether a `reshape`, `to` or `contiguous` copies."""
    first = next((one for one in node.args if isinstance(one, fx.Node)), None)
    source = first.meta.get("val") if first is not None else None
    if node.op != "call_function" or tensor is None or not isinstance(source, torch.Tensor):
        return False
    target = node.target
    if isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable:
        return False
    return tensor.untyped_storage()._cdata == source.untyped_storage()._cdata
