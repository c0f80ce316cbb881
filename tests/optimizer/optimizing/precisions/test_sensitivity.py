"""What a layer costs in int8, measured at the outputs against float64: by hand, and against the rewritten program."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from optimizer.compiling.int8 import linear_layers, to_int8
from optimizer.optimizing.graph import Graph
from optimizer.optimizing.precisions import sensitivity
from optimizer.optimizing.precisions.sensitivity import measure, questions_of, share, worst_error
from optimizer.optimizing.precisions.swaps import Swaps
from optimizer.spec import KeepFloat32
from optimizer.verifying.numerics import rule_for
from tests.optimizer.optimizing.support import export

RULE = rule_for("int8", 3.0, None)
ROWS = 96


class Tower(nn.Module):
    """The first layer's output is clipped to signs, so that rounding it costs next to nothing; the second is not."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.head = nn.Linear(24, 32), nn.Linear(32, 16), nn.Linear(16, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.second(torch.tanh(1e3 * self.first(x)))))


def asked(model: nn.Module, sets: int = 2) -> tuple[Graph, list[np.ndarray]]:
    """The graph, and arrays as they travel: inputs, then the float64 truth, set by set."""
    draw = torch.Generator().manual_seed(5)
    arrays: list[np.ndarray] = []
    exact = copy.deepcopy(model).double()
    for _ in range(sets):
        x = torch.randn(ROWS, 24, generator=draw)
        with torch.no_grad():
            arrays += [x.numpy(), exact(x.double()).numpy()]
    return Graph.from_exported(export(model, torch.zeros(ROWS, 24))), arrays


def timed(monkeypatch: pytest.MonkeyPatch, times: dict[int, list[float]]) -> None:
    """By the layer's inputs: milliseconds in float32 and in the lower precision."""
    monkeypatch.setattr(sensitivity, "layer_ms", lambda rows, weight, precisions: times[weight.shape[1]])


def test_the_error_of_one_layer_is_that_of_the_program_with_that_layer_rewritten() -> None:
    model = Tower()
    graph, arrays = asked(model)
    questions = questions_of(arrays, 2, 1, ROWS)
    swaps = Swaps(graph, linear_layers(graph), questions, ["y"])
    program = to_int8(export(model, torch.zeros(ROWS, 24)), KeepFloat32(last_linears=2)).module()
    answers = [program(torch.tensor(x)).detach().numpy() for x in arrays[::2]]
    truth = np.concatenate(arrays[1::2])
    wanted = np.sqrt(np.mean((np.concatenate(answers) - truth) ** 2)) / truth.std()
    assert wanted > 1e-5
    assert worst_error(swaps.judged({0: "int8"}, RULE)) == pytest.approx(wanted, rel=1e-3)


def test_all_layers_together_are_the_program_with_all_of_them_rewritten() -> None:
    model = Tower()
    graph, arrays = asked(model)
    swaps = Swaps(graph, linear_layers(graph), questions_of(arrays, 2, 1, ROWS), ["y"])
    program = to_int8(export(model, torch.zeros(ROWS, 24)), KeepFloat32()).module()
    answers = [program(torch.tensor(x)).detach().numpy() for x in arrays[::2]]
    truth = np.concatenate(arrays[1::2])
    wanted = np.sqrt(np.mean((np.concatenate(answers) - truth) ** 2)) / truth.std()
    judged = swaps.judged(dict.fromkeys(range(3), "int8"), RULE)
    assert worst_error(judged) == pytest.approx(wanted, rel=1e-3)
    assert share(judged) == pytest.approx(wanted / RULE.allowed(judged[0].baseline_error), rel=1e-3)


def test_nothing_swapped_is_as_good_as_the_original() -> None:
    graph, arrays = asked(Tower())
    swaps = Swaps(graph, linear_layers(graph), questions_of(arrays, 2, 1, ROWS), ["y"])
    (row,) = swaps.judged({}, RULE)
    assert row.error == row.baseline_error < 1e-5


def test_a_layer_that_loses_time_stays_and_its_error_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, {24: [2.0, 1.0], 32: [1.0, 3.0], 16: [0.1, 0.1]})
    graph, arrays = asked(Tower())
    layers, choice = measure(graph, questions_of(arrays, 2, 1, ROWS), ["y"], "int8", rule_for("int8", 3.0, 0.5), 60.0)
    assert [layer.precision for layer in layers] == ["int8", "float32", "float32"]
    assert [layer.error is None for layer in layers] == [False, True, True]
    assert [(layer.inputs, layer.outputs, layer.rows) for layer in layers] == [
        (24, 32, ROWS),
        (32, 16, ROWS),
        (16, 1, ROWS),
    ]
    assert choice.layers == {0}
    assert layers[1].reason.startswith("it would gain too little")


def test_a_layer_that_costs_more_than_the_bound_stays_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, {24: [2.0, 1.0], 32: [2.0, 1.0], 16: [2.0, 1.0]})
    graph, arrays = asked(Tower())
    questions = questions_of(arrays, 2, 1, ROWS)
    free, _ = measure(graph, questions, ["y"], "int8", rule_for("int8", 3.0, 0.5), 60.0)
    errors = [layer.error for layer in free]
    assert {layer.precision for layer in free} == {"int8"}
    assert errors[0] is not None and errors[1] is not None and errors[0] != errors[1]
    bound = (errors[0] + errors[1]) / 2
    layers, choice = measure(graph, questions, ["y"], "int8", rule_for("int8", 3.0, bound / 0.7), 60.0)
    dearest = 0 if errors[0] > errors[1] else 1
    assert layers[dearest].precision == "float32" and dearest not in choice.layers
    assert "what is allowed" in layers[dearest].reason
    assert choice.share <= 0.7


def test_without_time_no_error_is_measured_and_nothing_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, {24: [2.0, 1.0], 32: [2.0, 1.0], 16: [2.0, 1.0]})
    graph, arrays = asked(Tower())
    layers, choice = measure(graph, questions_of(arrays, 2, 1, ROWS), ["y"], "int8", RULE, 0.0)
    assert choice.layers == frozenset()
    assert {layer.reason.partition(";")[0] for layer in layers} == {"there was no time to measure its error"}


def test_a_graph_without_linear_layers_has_no_entries() -> None:
    class Plain(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sin()

    graph, arrays = asked(Plain(), 1)
    assert measure(graph, questions_of(arrays, 1, 1, ROWS), ["y"], "int8", RULE, 60.0)[0] == []


def test_a_graph_that_writes_in_place_is_run_anew_each_time() -> None:
    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layer = nn.Linear(24, 4)

        def forward(self, x: torch.Tensor) -> Any:
            y = self.layer(x)
            x.add_(1.0)
            return y, x * 2

    draw = torch.randn(ROWS, 24, generator=torch.Generator().manual_seed(5))
    model = Writes()
    exact = copy.deepcopy(model).double()
    with torch.no_grad():
        arrays = [draw.numpy(), *(t.numpy() for t in exact(draw.double()))]
    graph = Graph.from_exported(export(model, torch.zeros(ROWS, 24)))
    swaps = Swaps(graph, linear_layers(graph), questions_of(arrays, 1, 1, ROWS), ["y", "x"])
    for _ in range(2):
        errors = [row.error for row in swaps.judged({}, RULE)]
        assert max(errors) < 1e-6


def test_layers_are_timed_in_each_precision() -> None:
    from optimizer.optimizing.precisions.layer_times import layer_ms

    times = layer_ms(5, torch.randn(7, 123), ["float32", "bfloat16", "int8"])
    assert len(times) == 3
    assert all(0 < ms < 1e3 for ms in times)
