"""Which nodes of the graph each kernel of Inductor holds, as its own provenance tracking tells while it compiles.

Read from torch's structured trace, which `tlparse` reads too. What is told there is not exact. A kernel also names what
its inputs were made of, so a node counts to the first kernel that names it. And where Inductor folds a pattern (linear,
then relu) into one operation, it keeps the last node only: a node that no kernel names, that depends on the inputs and
that only one kernel's nodes use must be computed there, and counts to it.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from optimizer.profiling.document import GraphNode
from optimizer.profiling.torch_graph import places_of

# kernels that record themselves, and compilers that say what is in them; both change the cache's keys
MARKS: dict[str, Any] = {"cpp.enable_kernel_profile": True, "trace.provenance_tracking_level": 1}
KERNELS = "kernels.json"
_MAPPINGS, _TRACED = "inductor_provenance_tracking_node_mappings", "before_pre_grad_graph"
_BARE = re.compile(r"^(graph_\d+_|aoti_torch_(cpu|cuda)_|extern_kernels\.|torch\.ops\.\w+\.|\w+::)")
_OVERLOAD = re.compile(r"\.\w+$")
_TRACED_NODE = re.compile(r'^\s+(\w+)(?:: "[^"]*")? = torch\.ops\.([\w.]+)\(', re.MULTILINE)
_OF_SIZES = ("aten.sym_", "aten._assert")  # tracing again leaves these out, or adds some

Kernel = tuple[str, list[GraphNode]]


def bare(name: str) -> str:
    """One name for what the compiler and the profiler call differently: `torch.ops.mkl._mkl_linear.default`."""
    return _OVERLOAD.sub("", _BARE.sub("", name))


class _Listener(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        told = getattr(record, "metadata", None)
        artifact = told.get("artifact") if isinstance(told, dict) else None
        if isinstance(artifact, dict) and artifact.get("name") in (_MAPPINGS, _TRACED):
            self.told.append((artifact["name"], str(getattr(record, "payload", ""))))


@contextmanager
def listening() -> Iterator[list[tuple[str, str]]]:
    """What is said within the block of graphs and of the kernels that are made of them."""
    listener, trace = _Listener(), logging.getLogger("torch.__trace")
    trace.addHandler(listener)
    try:
        yield listener.told
    finally:
        trace.removeHandler(listener)


def kernels_of(told: Sequence[tuple[str, str]], exported: ExportedProgram) -> list[Kernel]:
    """In the order in which a call runs them. `exported` is what was compiled."""
    graph = exported.graph
    found: list[tuple[str, list[str]]] = []
    ours: dict[str, str] = {}
    named_before: set[str] = set()
    for kind, payload in told:
        if kind == _TRACED:
            ours = _same_nodes(payload, graph)
            continue
        document = json.loads(payload)
        traced: Mapping[str, list[str]] = document.get("postToPre") or {}
        named: Mapping[str, list[str]] = document.get("cppCodeToPost") or {}
        for code in sorted(named, key=_handle):
            nodes = {ours[n] for later in named[code] for n in traced.get(later, ()) if n in ours} - named_before
            named_before |= nodes
            found.append((bare(code.rpartition(":")[0]), list(nodes)))
    places = places_of(graph)
    more = _unnamed([nodes for _, nodes in found], graph, set(exported.graph_signature.user_inputs))
    in_order = {node.name: at for at, node in enumerate(graph.nodes)}
    return [
        (name, [places[node] for node in sorted((*unnamed, *nodes), key=in_order.__getitem__) if node in places])
        for (name, nodes), unnamed in zip(found, more, strict=True)
    ]


def _same_nodes(traced: str, graph: fx.Graph) -> dict[str, str]:
    """The graph was traced again before it was compiled, and its nodes may have got new names: the order is the same.

    Empty when it is not: then nothing is said of any kernel.
    """
    theirs = [(name, op) for name, op in _TRACED_NODE.findall(traced) if not op.startswith(_OF_SIZES)]
    ours = [(n.name, str(n.target)) for n in graph.nodes if isinstance(n.target, torch._ops.OperatorBase)]
    ours = [(name, op) for name, op in ours if not op.startswith(_OF_SIZES)]
    if [op for _, op in theirs] != [op for _, op in ours]:
        return {}
    return {their: our for (their, _), (our, _) in zip(theirs, ours, strict=True)}


def _handle(code: str) -> int:
    """`cpp_fused_relu_2:5` is the fifth that the compiler wrote into the call."""
    handle = code.rpartition(":")[2]
    return int(handle) if handle.isdigit() else 0


def _unnamed(kernels: Sequence[Sequence[str]], graph: fx.Graph, inputs: Collection[Any]) -> list[list[str]]:
    """For each kernel the nodes that it must hold although it does not name them."""
    owners = {node: at for at, nodes in enumerate(kernels) for node in nodes}
    varying = _depending_on(inputs, graph)
    more: list[list[str]] = [[] for _ in kernels]
    for node in reversed(list(graph.nodes)):
        if node.op != "call_function" or node.name in owners or node not in varying or not node.users:
            continue
        using = {owners.get(user.name) for user in node.users}
        owner = using.pop()
        if owner is not None and not using:
            owners[node.name] = owner
            more[owner].append(node.name)
    return more


def _depending_on(inputs: Collection[Any], graph: fx.Graph) -> set[fx.Node]:
    """Others may be computed once, when compiling."""
    found: set[fx.Node] = set()
    for node in graph.nodes:
        if node.name in inputs or any(source in found for source in node.all_input_nodes):
            found.add(node)
    return found


def save(kernels: Sequence[Kernel], path: Path) -> None:
    path.write_text(json.dumps([[name, [node.model_dump() for node in nodes]] for name, nodes in kernels]))


def read(path: Path) -> list[Kernel]:
    return [(name, [GraphNode.model_validate(n) for n in nodes]) for name, nodes in json.loads(path.read_text())]
