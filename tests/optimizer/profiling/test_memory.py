"""Memory over a call: sizes worked out by hand, and whose they are at the peak."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from optimizer.profiling.document import GraphNode, MemoryTimeline
from optimizer.profiling.event_tree import Allocation, Event
from optimizer.profiling.marks import FORWARD, NODE, UPDATE
from optimizer.profiling.memory import BINS, held_bytes, memory_of_graph, thinned, timeline

ROWS, WIDTH, HIDDEN = 64, 12, 123
PLACES = [
    GraphNode(node="linear", op="linear", module="a", source="model.py:3"),
    GraphNode(node="relu", op="relu", module="b", source="model.py:4"),
]


def event(name: str, start: int, end: int, *children: Event, sequence: int = -1) -> Event:
    return Event(name, start, end, sequence, children=list(children))


def asks(at: int, address: int, size: int) -> Event:
    return Event("[memory]", at, at, allocation=Allocation(address, size))


def gives_back(at: int, address: int, size: int) -> Event:
    return asks(at, address, -size)


def ms(count: float) -> int:
    return int(count * 1_000_000)


def of(*children: Event) -> MemoryTimeline:
    return timeline(event("call", 0, ms(10), *children), PLACES, 1_000, "by hand")


def test_what_is_held_goes_up_and_down_and_the_peak_is_its_most() -> None:
    found = of(
        event(f"{NODE}0", ms(1), ms(3), asks(ms(2), 7, 100)),
        event(f"{NODE}1", ms(4), ms(6), asks(ms(5), 8, 60)),
        gives_back(ms(7), 7, 100),
        asks(ms(8), 7, 10),  # the same address anew
    )
    assert found.points == [(0.0, 0), (2.0, 100), (5.0, 160), (7.0, 60), (8.0, 70)]
    assert (found.peak_bytes, found.peak_at_ms, found.profiled_ms) == (160, 5.0, 10.0)
    assert (found.resident_bytes, found.how_obtained, found.phases) == (1_000, "by hand", [])


def test_the_owners_are_those_that_are_alive_at_the_peak_and_not_those_that_asked_for_most() -> None:
    found = of(
        event(f"{NODE}0", ms(1), ms(3), asks(ms(1), 1, 500), asks(ms(2), 2, 30), gives_back(ms(3), 1, 500)),
        event(f"{NODE}1", ms(4), ms(6), asks(ms(4), 3, 470), asks(ms(5), 4, 100)),
        asks(ms(7), 5, 0),
    )
    assert found.peak_bytes == 600
    assert [(o.op, o.module, o.source, o.bytes, o.tensors) for o in found.owners] == [
        ("relu", "b", "model.py:4", 570, 2),
        ("linear", "a", "model.py:3", 30, 1),
    ]
    assert [o.share for o in found.owners] == [0.95, 0.05]


def test_what_was_there_before_the_call_counts_for_nothing_when_it_is_given_back() -> None:
    found = of(gives_back(ms(1), 9, 4_000), event(f"{NODE}0", ms(2), ms(3), asks(ms(2), 9, 40)))
    assert found.peak_bytes == 40
    assert all(size >= 0 for _, size in found.points)


def test_a_call_that_asks_for_nothing_has_no_peak() -> None:
    found = of()
    assert (found.points, found.peak_bytes, found.owners) == ([(0.0, 0)], 0, [])


def test_an_operation_of_no_node_is_called_by_its_name_and_its_inner_ones_are_its_own() -> None:
    found = of(
        event("aten::mm", ms(1), ms(3), event("aten::empty", ms(1), ms(2), asks(ms(1), 1, 8))), asks(ms(4), 2, 8)
    )
    assert {(o.op, o.module) for o in found.owners} == {("mm", None), ("(outside of operations)", None)}


def test_gradients_belong_to_the_node_that_they_are_of_and_each_to_its_phase() -> None:
    found = of(
        event(
            FORWARD,
            ms(1),
            ms(4),
            event(f"{NODE}0", ms(1), ms(2), event("aten::addmm", ms(1), ms(2), asks(ms(1), 1, 16), sequence=5)),
            # no node of backward is made here: it shows the number that comes next
            event(f"{NODE}1", ms(2), ms(4), event("aten::relu", ms(2), ms(4), asks(ms(3), 2, 16), sequence=6)),
        ),
        event(
            "autograd::engine::evaluate_function: AddmmBackward0",
            ms(5),
            ms(7),
            event("AddmmBackward0", ms(5), ms(7), asks(ms(6), 3, 32), sequence=5),
        ),
        event(UPDATE, ms(8), ms(9), event("aten::add_", ms(8), ms(9), asks(ms(8), 4, 64))),
    )
    assert [(o.op, o.module, o.phase, o.bytes) for o in found.owners] == [
        ("add_", None, "optimizer", 64),
        ("AddmmBackward0", "a", "backward", 32),
        ("linear", "a", "forward", 16),
        ("relu", "b", "forward", 16),
    ]
    spans = [(span.name, span.from_ms, span.to_ms) for span in found.phases]
    assert spans == [("optimizer", 0, 1), ("forward", 1, 4), ("backward", 4, 8), ("optimizer", 8, 10)]


def test_many_points_are_thinned_and_keep_the_peak_and_the_end() -> None:
    points = [(at / 1_000, at % 977) for at in range(20_000)] + [(20.0, 5_000), (20.1, 3)]
    kept = thinned(points, 20.2)
    assert len(kept) <= 3 * BINS
    assert kept == sorted(kept) and set(kept) <= set(points)
    assert max(size for _, size in kept) == 5_000 and kept[-1] == (20.1, 3)


def test_memory_behind_two_views_counts_once() -> None:
    whole = torch.zeros(4, 8)
    assert held_bytes([whole, whole[1], whole.t(), torch.zeros(3), None]) == 4 * 8 * 4 + 3 * 4


# ---- over a real graph -----------------------------------------------------------------------------------------------


class Small(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(WIDTH, HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first(x))
        return hidden.sum(1)


@pytest.fixture(scope="module")
def measured() -> MemoryTimeline:
    model = Small().eval()
    x = torch.zeros(ROWS, WIDTH)
    graph: Any = torch.export.export(model, (x,)).module()
    memory, spans = memory_of_graph(graph, [x])
    assert [span.op for span in spans] == ["linear", "relu", "sum"]
    assert all(one.at_ms + one.ms <= other.at_ms for one, other in pairwise(spans))
    return memory


def test_the_peak_of_a_graph_is_what_two_of_its_operations_hold_together(measured: MemoryTimeline) -> None:
    hidden_bytes = ROWS * HIDDEN * 4
    assert measured.peak_bytes == 2 * hidden_bytes
    owners = {owner.op: owner for owner in measured.owners}
    assert {name: owner.bytes for name, owner in owners.items()} == {"linear": hidden_bytes, "relu": hidden_bytes}
    assert owners["linear"].module == "first"
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "hidden = torch.relu" in text)
    assert owners["relu"].source == f"{Path(__file__).name}:{line}"


def test_weights_and_inputs_are_resident(measured: MemoryTimeline) -> None:
    assert measured.resident_bytes == 4 * (WIDTH * HIDDEN + HIDDEN + ROWS * WIDTH)
    assert measured.phases == [] and measured.profiled_ms > 0
    assert max(size for _, size in measured.points) == measured.peak_bytes
