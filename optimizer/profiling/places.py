"""Where a node of a graph comes from: the user's module and line. For ONNX graphs too, where torch.onnx wrote it down.

Imports no torch: ONNX Runtime and OpenVINO are profiled without it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from optimizer.profiling.document import GraphNode

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_FX_NODE = re.compile(r"^%(\w+) :.*?\[target=torch\.ops\.(\w+)\.(\w+)")
_EXPORTED = "pkg.torch.onnx."


def source_of(stack_trace: str) -> str | None:
    """Such as `model.py:41`: the innermost frame outside torch."""
    for path, line in reversed(_FRAME.findall(stack_trace)):
        if "-packages/torch/" not in path and not path.startswith(("torch/", "<")):
            return f"{path.rsplit('/', 1)[-1]}:{line}"
    return None


def of_onnx(path: Path) -> dict[str, GraphNode]:
    """By the node's name, and by the name of its first output: engines use either."""
    import onnx

    found: dict[str, GraphNode] = {}
    for node in onnx.load(str(path), load_external_data=False).graph.node:
        place = _exported({p.key: p.value for p in node.metadata_props}) or GraphNode(
            node=node.name, op=node.op_type, module=node.name or None
        )
        for name in (*node.output[:1], node.name):
            if name:
                found[name] = place
    return found


def _exported(facts: Mapping[str, str]) -> GraphNode | None:
    """What torch.onnx says of the node of the PyTorch graph that this one was made of; None where it says nothing."""
    made_of = _FX_NODE.match(facts.get(f"{_EXPORTED}fx_node", ""))
    if made_of is None:
        return None
    node, namespace, op = made_of.groups()
    return GraphNode(
        node=node,
        op=op if namespace == "aten" else f"{namespace}::{op}",
        module=_innermost(facts.get(f"{_EXPORTED}name_scopes", "")),
        source=source_of(facts.get(f"{_EXPORTED}stack_trace", "")),
    )


def _innermost(scopes: str) -> str | None:
    """Out of `['', 'layers.0', 'layers.0.norm', 'layer_norm']`, whose last entry is the node itself."""
    try:
        listed = ast.literal_eval(scopes)
    except (ValueError, SyntaxError):
        return None
    return str(listed[-2]) or None if isinstance(listed, list) and len(listed) > 1 else None


def found_in(names: Iterable[str], places: Mapping[str, GraphNode]) -> list[GraphNode]:
    """The nodes that an engine names. OpenVINO appends what it knows: `linear_1/aten.linear.default/MatMul`."""
    found: dict[str, GraphNode] = {}
    for name in names:
        node = places.get(name) or _same_operation(name, places) or GraphNode(node=name)
        found.setdefault(node.node, node)
    return list(found.values())


def _same_operation(name: str, places: Mapping[str, GraphNode]) -> GraphNode | None:
    """None where another operation of that name is meant: OpenVINO decomposes the graph, which makes new names."""
    first, _, rest = name.partition("/")
    node, target = places.get(first), rest.partition("/")[0].split(".")
    if node is None or len(target) < 3:
        return node
    op = target[1] if target[0] == "aten" else f"{target[0]}::{target[1]}"
    return node if node.op == op else None


def common_place(nodes: Iterable[GraphNode]) -> dict[str, str | None]:
    """Module and source where all nodes have the same: fields of an Operation."""
    nodes = list(nodes)
    modules, sources = {n.module for n in nodes}, {n.source for n in nodes}
    return {
        "module": modules.pop() if len(modules) == 1 else None,
        "source": sources.pop() if len(sources) == 1 else None,
    }
