"""Which nodes of the captured graph, and which lines of the user's code, went into a kernel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from optimizer.predicting.document import SourceNode
from optimizer.profiling.places import source_of


def source_nodes(origins: Iterable[Any]) -> list[SourceNode]:
    """In the order given, each node once; weights and inputs are no operations and left out."""
    found: dict[str, SourceNode] = {}
    for node in origins:
        if node.op != "call_function":
            continue
        history = node.meta.get("from_node") or []
        name = str(history[0].name) if history else node.name
        original = node.meta.get("original_aten")
        operation = str(original) if original is not None else str(node.target)
        place = source_of(node.meta.get("stack_trace") or "")
        found.setdefault(name, SourceNode(node=name, operation=operation, source=place))
    return list(found.values())
