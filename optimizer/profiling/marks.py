"""Marks in what torch's profiler records: which node of a graph ran, and which part of a training step.

A graph is run node by node, each under its number; what a mark costs is in the times, and the overhead says how much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from torch import fx
from torch.profiler import record_function

from optimizer.profiling.document import GraphNode, PhaseName
from optimizer.profiling.event_tree import Event
from optimizer.profiling.torch_graph import places_of

# spelled so that no reader of operations takes them for one
CALL, NODE, FORWARD, UPDATE = "one profiled call", "profiled node ", "profiled forward", "profiled update"
ENGINE = "autograd::engine::evaluate_function: "


class Marked(fx.Interpreter):
    """Runs the graph with every operation under its own mark; `places` are those operations."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        known = places_of(module.graph)
        nodes = [node for node in module.graph.nodes if node.name in known]
        self.places = [known[node.name] for node in nodes]
        self.nodes = nodes
        self._marks = {node: f"{NODE}{number}" for number, node in enumerate(nodes)}

    def run_node(self, n: fx.Node) -> Any:
        mark = self._marks.get(n)
        if mark is None:
            return super().run_node(n)
        with record_function(mark):
            return super().run_node(n)


class Owner(NamedTuple):
    """What an event is part of. `number`: of the node in `Marked.places`; of backward, of the node that it is of."""

    op: str
    place: GraphNode | None
    event: Event
    number: int | None = None


def owners(call: Event, places: Sequence[GraphNode]) -> Iterator[Owner]:
    """The outermost operations of a call, in the order in which they began: nodes, nodes of backward, and others."""
    made_by = _made_by(call)
    ahead = list(reversed(call.children))
    while ahead:
        event = ahead.pop()
        if event.name.startswith(NODE):
            number = int(event.name.removeprefix(NODE))
            yield Owner(places[number].op or "", places[number], event, number)
        elif event.name.startswith(ENGINE):
            number_ = next((made_by[one.sequence] for one in event.walk() if one.sequence in made_by), None)
            place = places[number_] if number_ is not None else None
            yield Owner(event.name.removeprefix(ENGINE).rpartition("::")[2], place, event, number_)
        elif "::" in event.name:
            yield Owner(event.name.removeprefix("aten::"), None, event)
        else:
            ahead += reversed(event.children)


def _made_by(call: Event) -> dict[int, int]:
    """The node of the graph behind each of autograd's numbers. An operation that makes no node of backward shows the
    number that the next one will get: the last to show it is the one that made it."""
    found: dict[int, int] = {}
    for event in call.walk():
        if event.name.startswith(NODE):
            number = int(event.name.removeprefix(NODE))
            found |= {one.sequence: number for one in event.walk() if one.sequence >= 0}
    return found


def spans(call: Event) -> list[tuple[PhaseName, int, int]]:
    """When the parts of a training step were at work, in nanoseconds; empty for what is none. They leave nothing out:
    gradients are cleared before forward, rows of tables are updated behind the optimizer."""
    forward = next((event for event in call.walk() if event.name == FORWARD), None)
    update = next((event for event in call.walk() if event.name == UPDATE), None)
    if forward is None or update is None:
        return []
    return [
        ("optimizer", call.start_ns, forward.start_ns),
        ("forward", forward.start_ns, forward.end_ns),
        ("backward", forward.end_ns, update.start_ns),
        ("optimizer", update.start_ns, call.end_ns),
    ]


def phase_at(parts: Sequence[tuple[PhaseName, int, int]], moment_ns: int) -> PhaseName | None:
    return next((name for name, first, last in parts if first <= moment_ns < last), None)
