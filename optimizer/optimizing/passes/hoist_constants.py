"""What depends on constants only is computed once: position tables, masks, transposed or scaled weights, RoPE angles.

Refuses random numbers, results that are handed back (the caller would get, and could change, our constant), and what
grows the model by more than `max_bytes` (a gather from a large table, an expanded weight). Views of a weight stay when
the weight itself is still needed: a view costs nothing, a second copy does.
"""

from __future__ import annotations

import operator
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import fx

from optimizer.optimizing.aliasing import shares_memory
from optimizer.optimizing.base import Pass, PassOptions, Report, register_pass
from optimizer.optimizing.graph import Graph
from optimizer.optimizing.memory import handed_back


@register_pass
class HoistConstants(Pass):
    name = "hoist_constants"
    title = "Compute constants once"
    summary = "Sub-graphs that depend on weights and constants only are evaluated when rewriting, not at every call."
    numerics: ClassVar[Literal["exact", "reassociates"]] = "exact"
    order = 30

    class Options(PassOptions):
        max_bytes: int = Field(
            default=16 * 2**20, ge=0, description="how much larger one hoisted constant may make the model"
        )

    def apply(self, graph: Graph, options: Options, report: Report) -> None:
        constant = _constant_nodes(graph, report)
        values: dict[fx.Node, Any] = {}
        waiting = _frontier(graph, constant)
        for node in waiting:
            reason = _why_not(graph, node, constant, options.max_bytes)
            if reason is not None:
                report.refused(node, reason)
                smaller = _frontier(graph, constant, below=node)  # its inputs may fit
                waiting += [n for n in smaller if n not in waiting]
                continue
            if _is_bare_view(node, constant) and _growth(graph, node, constant) > 0:
                continue
            value = _evaluate(graph, node, values)
            report.applied(node, f"computed once: {tuple(value.shape)} {value.dtype}".replace("torch.", ""))
            graph.replace(node, graph.constant(value, node.name))
        values.clear()


def _constant_nodes(graph: Graph, report: Report) -> set[fx.Node]:
    """Constants and the calls that depend on nothing else."""
    found: set[fx.Node] = set()
    for node in graph.nodes:
        if node in graph.tainted:
            continue
        if node.op == "get_attr":
            if graph.constant_value(node) is not None:
                found.add(node)
        elif node.op == "call_function" and "val" in node.meta and all(n in found for n in node.all_input_nodes):
            if node.target is operator.getitem:
                found.add(node)
            elif isinstance(node.target, torch._ops.OpOverload) and not node.target._schema.is_mutable:
                if torch.Tag.nondeterministic_seeded in node.target.tags:
                    report.refused(node, "it draws random numbers")
                elif len(node.target._schema.returns) > 0:
                    found.add(node)
    return found


def _frontier(graph: Graph, constant: set[fx.Node], below: fx.Node | None = None) -> list[fx.Node]:
    """The constant calls whose value something else needs (or `below` does); behind an expansion, its smaller input."""
    found: dict[fx.Node, None] = {}

    def add(node: fx.Node) -> None:
        if node.op != "call_function":
            return
        if not graph.is_tensor(node):
            for source in node.all_input_nodes:  # several outputs: each taken one was added by itself
                add(source)
        elif _expanded(graph.value(node)):
            for source in node.all_input_nodes:
                add(source)
        else:
            found[node] = None

    for node in graph.nodes if below is None else below.all_input_nodes:
        if node in constant and (below is not None or any(user not in constant for user in node.users)):
            add(node)
    order = {node: index for index, node in enumerate(graph.nodes)}
    return sorted(found, key=order.__getitem__)


def _expanded(value: torch.Tensor) -> bool:
    return any(stride == 0 and size != 1 for size, stride in zip(value.shape, value.stride(), strict=True))


def _why_not(graph: Graph, node: fx.Node, constant: set[fx.Node], max_bytes: int) -> str | None:
    if handed_back(graph, node) and not _is_bare_view(node, constant):
        return "it is handed back: the caller could change our constant"
    if _is_bare_view(node, constant):
        return None
    growth = _growth(graph, node, constant)
    if growth > max_bytes:
        return f"it would make the model {growth} bytes larger, above max_bytes {max_bytes}"
    return None


def _is_bare_view(node: fx.Node, constant: set[fx.Node]) -> bool:
    """Whether the node only looks at a weight: views all the way."""
    while node.op == "call_function":
        sources = shares_memory(node)
        if len(node.all_input_nodes) != 1 or sources != node.all_input_nodes:
            return False
        if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.name in ("aten::to", "aten::type_as"):
            return False
        node = node.all_input_nodes[0]
    return True


def _growth(graph: Graph, node: fx.Node, constant: set[fx.Node]) -> int:
    """Bytes of the result less those of the constants that nothing needs once it is computed."""
    inside, waiting = {node}, [node]
    while waiting:
        for source in waiting.pop().all_input_nodes:
            if source not in inside:
                inside.add(source)
                waiting.append(source)
    kept = {n for n in inside if n is not node and any(user not in inside for user in n.users)}
    kept |= {source for n in kept for source in _ancestors(n)}
    freed = {str(n.target) for n in inside if n.op == "get_attr" and n not in kept}
    freed -= {str(n.target) for n in graph.nodes if n.op == "get_attr" and n not in inside}
    held = sum(_bytes(graph.value(n)) for n in inside if n.op == "get_attr" and str(n.target) in freed)
    return _bytes(graph.value(node)) - held


def _ancestors(node: fx.Node) -> set[fx.Node]:
    found, waiting = {node}, [node]
    while waiting:
        for source in waiting.pop().all_input_nodes:
            if source not in found:
                found.add(source)
                waiting.append(source)
    return found


def _bytes(value: torch.Tensor) -> int:
    return int(value.numel()) * value.element_size()


def _evaluate(graph: Graph, node: fx.Node, values: dict[fx.Node, Any]) -> Any:
    if node not in values:
        if node.op == "get_attr":
            return graph.constant_value(node)
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: _evaluate(graph, n, values))
        with torch.no_grad():
            values[node] = node.target(*args, **kwargs)  # type: ignore[operator]
    return values[node]
