"""What a layer costs in a lower precision, at the outputs against float64: as in the rewritten program."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from optimizer.compiling.bfloat16 import to_bfloat16
from optimizer.compiling.int8 import to_int8
from optimizer.compiling.kept import in_words_of_shapes
from optimizer.compiling.layers import bfloat16_layers, int8_layers
from optimizer.optimizing.graph import Graph
from optimizer.optimizing.precisions import sensitivity
from optimizer.optimizing.precisions.layer_times import layer_ms, operation_ms
from optimizer.optimizing.precisions.sensitivity import measure, questions_of, share, worst_error
from optimizer.optimizing.precisions.swaps import Swaps
from optimizer.spec import KeepFloat32, LayerShape
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


def asked_of(model: nn.Module, sets: int = 2) -> tuple[Graph, list[np.ndarray]]:
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
    graph, arrays = asked_of(model)
    questions = questions_of(arrays, 2, 1, ROWS)
    swaps = Swaps(graph, int8_layers(graph), questions, ["y"])
    program = to_int8(export(model, torch.zeros(ROWS, 24)), KeepFloat32(last_linears=2)).module()
    answers = [program(torch.tensor(x)).detach().numpy() for x in arrays[::2]]
    truth = np.concatenate(arrays[1::2])
    wanted = np.sqrt(np.mean((np.concatenate(answers) - truth) ** 2)) / truth.std()
    assert wanted > 1e-5
    assert worst_error(swaps.judged({0: "int8"}, RULE)) == pytest.approx(wanted, rel=1e-3)


def test_all_layers_together_are_the_program_with_all_of_them_rewritten() -> None:
    model = Tower()
    graph, arrays = asked_of(model)
    swaps = Swaps(graph, int8_layers(graph), questions_of(arrays, 2, 1, ROWS), ["y"])
    program = to_int8(export(model, torch.zeros(ROWS, 24)), KeepFloat32()).module()
    answers = [program(torch.tensor(x)).detach().numpy() for x in arrays[::2]]
    truth = np.concatenate(arrays[1::2])
    wanted = np.sqrt(np.mean((np.concatenate(answers) - truth) ** 2)) / truth.std()
    judged = swaps.judged(dict.fromkeys(range(3), "int8"), RULE)
    assert worst_error(judged) == pytest.approx(wanted, rel=1e-3)
    assert share(judged) == pytest.approx(wanted / RULE.allowed(judged[0].baseline_error), rel=1e-3)


def test_nothing_swapped_is_as_good_as_the_original() -> None:
    graph, arrays = asked_of(Tower())
    swaps = Swaps(graph, int8_layers(graph), questions_of(arrays, 2, 1, ROWS), ["y"])
    (row,) = swaps.judged({}, RULE)
    assert row.error == row.baseline_error < 1e-5


def test_a_layer_that_loses_time_stays_and_its_error_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, {24: [2.0, 1.0], 32: [1.0, 3.0], 16: [0.1, 0.1]})
    graph, arrays = asked_of(Tower())
    layers, choice = measure(graph, questions_of(arrays, 2, 1, ROWS), ["y"], "int8", rule_for("int8", 3.0, 0.5), 60.0)
    assert [layer.precision for layer in layers] == ["int8", "float32", "float32"]
    assert [layer.error for layer in layers] == [None, None, None]  # what gains fits: no layer was asked alone
    assert [(layer.inputs, layer.outputs, layer.rows) for layer in layers] == [
        (24, 32, ROWS),
        (32, 16, ROWS),
        (16, 1, ROWS),
    ]
    assert choice.layers == {0}
    assert layers[0].reason.endswith("all that gain keep the bound together")
    assert layers[1].reason.startswith("it would gain too little")


def test_a_layer_that_costs_more_than_the_bound_stays_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, {24: [2.0, 1.0], 32: [2.0, 1.0], 16: [2.0, 1.0]})
    graph, arrays = asked_of(Tower())
    questions = questions_of(arrays, 2, 1, ROWS)
    free, _ = measure(graph, questions, ["y"], "int8", rule_for("int8", 3.0, 0.5), 60.0)
    assert {layer.precision for layer in free} == {"int8"}
    swaps = Swaps(graph, int8_layers(graph), questions, ["y"])
    errors = [worst_error(swaps.judged({place: "int8"}, RULE)) for place in range(3)]
    assert errors[0] != errors[1]
    bound = (errors[0] + errors[1]) / 2
    layers, choice = measure(graph, questions, ["y"], "int8", rule_for("int8", 3.0, bound / 0.7), 60.0)
    dearest = 0 if errors[0] > errors[1] else 1
    assert layers[dearest].precision == "float32" and dearest not in choice.layers
    assert "what is allowed" in layers[dearest].reason
    assert choice.share <= 0.7


def test_without_time_no_error_is_measured_and_nothing_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, {24: [2.0, 1.0], 32: [2.0, 1.0], 16: [2.0, 1.0]})
    graph, arrays = asked_of(Tower())
    tight = rule_for("int8", 3.0, 1e-6)  # else all of them are taken without asking each
    layers, choice = measure(graph, questions_of(arrays, 2, 1, ROWS), ["y"], "int8", tight, 0.0)
    assert choice.layers == frozenset()
    assert {layer.reason.partition(";")[0] for layer in layers} == {"there was no time to measure its error"}


def test_a_graph_without_linear_layers_has_no_entries() -> None:
    class Plain(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sin()

    graph, arrays = asked_of(Plain(), 1)
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
    swaps = Swaps(graph, int8_layers(graph), questions_of(arrays, 1, 1, ROWS), ["y", "x"])
    for _ in range(2):
        errors = [row.error for row in swaps.judged({}, RULE)]
        assert max(errors) < 1e-6


def test_layers_are_timed_in_each_precision() -> None:
    before = torch.get_num_threads()
    times = layer_ms(5, torch.randn(7, 128), ["float32", "bfloat16", "int8", "int8_weights"])
    assert (len(times), torch.get_num_threads()) == (4, before)
    assert all(0 < ms < 1e3 for ms in times)


def test_for_few_rows_the_faster_of_both_ways_is_taken_and_its_error_is_that_of_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[int, int]] = []

    def timing(rows: int, weight: torch.Tensor, precisions: list[str]) -> list[float]:
        asked.append((weight.shape[1], len(precisions)))
        return [2.0, 1.0, 0.5] if len(precisions) == 3 else [2.0, 3.0]

    monkeypatch.setattr(sensitivity, "layer_ms", timing)
    monkeypatch.setattr(sensitivity, "FEW_ROWS", ROWS)
    model = Tower()
    graph, arrays = asked_of(model)
    layers, choice = measure(graph, questions_of(arrays, 2, 1, ROWS), ["y"], "int8", rule_for("int8", 3.0, 0.5), 60.0)
    assert asked == [(24, 2), (32, 3), (16, 2)]  # of the others' inputs there is no whole number of blocks
    assert choice.layers == {1}
    assert [layer.weight_only for layer in layers] == [False, True, False]
    assert layers[1].tried_ms == 0.5 and "0.500 ms in int8 of the weights alone" in layers[1].reason
    keep = KeepFloat32(layers=[LayerShape(inputs=24, outputs=32), LayerShape(inputs=16, outputs=1)])
    program = to_int8(export(model, torch.zeros(ROWS, 24)), keep, [LayerShape(inputs=32, outputs=16)]).module()
    answers = [program(torch.tensor(x)).detach().numpy() for x in arrays[::2]]
    truth = np.concatenate(arrays[1::2])
    wanted = np.sqrt(np.mean((np.concatenate(answers) - truth) ** 2)) / truth.std()
    swaps = Swaps(graph, int8_layers(graph), questions_of(arrays, 2, 1, ROWS), ["y"])
    assert worst_error(swaps.judged({1: "int8_weights"}, RULE)) == pytest.approx(wanted, rel=2e-2)
    assert wanted > 1e-5


def test_for_many_rows_weights_alone_are_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensitivity, "layer_ms", lambda rows, weight, precisions: [2.0, 1.0, 0.5][: len(precisions)])
    graph, arrays = asked_of(Tower())
    layers, _ = measure(graph, questions_of(arrays, 2, 1, ROWS), ["y"], "int8", rule_for("int8", 3.0, 0.5), 60.0)
    assert {layer.weight_only for layer in layers} == {False}


def test_for_few_rows_that_other_served_sizes_make_many_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensitivity, "layer_ms", lambda rows, weight, precisions: [2.0, 1.0, 0.5][: len(precisions)])
    monkeypatch.setattr(sensitivity, "FEW_ROWS", ROWS)
    graph, arrays = asked_of(Tower())
    questions, loose = questions_of(arrays, 2, 1, ROWS), rule_for("int8", 3.0, 0.5)
    for times, found in ((1.0, True), (2.0, False)):
        layers, _ = measure(graph, questions, ["y"], "int8", loose, 60.0, times)
        assert layers[1].weight_only is found


# ---- bfloat16 ------------------------------------------------------------------------------------------------------


class LargeScores(nn.Module):
    """Attention whose scores lie around 1024, where bfloat16 has steps of 8; in float32 the softmax takes that away."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v, self.up = (nn.Linear(8, 8) for _ in range(4))
        self.head = nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shift = torch.full_like(x[..., :1], 32.0)
        q, k = torch.cat([self.q(x), shift], -1), torch.cat([self.k(x), shift], -1)
        found = (q @ k.transpose(-1, -2)).softmax(-1) @ self.v(x)
        return self.head(torch.relu(self.up(found)))


SCORES, LAYERS = 2, 7  # the place of q @ k.T among q, k, q @ k.T, v, the other product, up, head
LOWER = rule_for("bfloat16", 3.0, 2e-2)


def attention(sets: int = 3, seed: int = 7) -> tuple[torch.export.ExportedProgram, list[np.ndarray]]:
    model, draw = LargeScores(), torch.Generator().manual_seed(seed)
    exact = copy.deepcopy(model).double()
    arrays: list[np.ndarray] = []
    for _ in range(sets):
        x = torch.randn(32, 6, 8, generator=draw)
        with torch.no_grad():
            arrays += [x.numpy(), exact(x.double()).numpy()]
    return export(model, torch.zeros(32, 6, 8)), arrays


def error_of(program: torch.export.ExportedProgram, arrays: list[np.ndarray]) -> float:
    module, truth = program.module(), np.stack(arrays[1::2])
    with torch.no_grad():
        answers = np.stack([module(torch.tensor(x)).numpy() for x in arrays[::2]])
    spread = np.concatenate(arrays[1::2]).std(0)
    return float(np.sqrt(np.mean((answers - truth) ** 2) / np.mean(spread**2)))


def kept_but(graph: Graph, low: set[int]) -> KeepFloat32:
    shapes = [layer.shape for layer in bfloat16_layers(graph)]
    return KeepFloat32(layers=in_words_of_shapes(shapes, set(range(len(shapes))) - low))


def alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every layer takes half of the time."""
    monkeypatch.setattr(sensitivity, "layer_ms", lambda rows, weight, precisions: [2.0, 1.0])
    monkeypatch.setattr(sensitivity, "operation_ms", lambda node, values: [2.0, 1.0])


@pytest.mark.parametrize("low", [{0}, {SCORES}, {3, 4, 6}, set(range(LAYERS))])
def test_in_bfloat16_too_the_error_is_that_of_the_program_with_these_layers_rewritten(low: set[int]) -> None:
    exported, arrays = attention()
    graph = Graph.from_exported(exported)
    swaps = Swaps(graph, bfloat16_layers(graph), questions_of(arrays, 3, 1, 32), ["y"])
    assert len(swaps.layers) == LAYERS
    found = worst_error(swaps.judged(dict.fromkeys(low, "bfloat16"), LOWER))
    assert found == pytest.approx(error_of(to_bfloat16(exported, kept_but(graph, low)), arrays), rel=1e-3)
    assert found > 1e-4


def test_scores_that_are_too_large_for_bfloat16_stay_float32_and_all_else_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    alike(monkeypatch)
    exported, arrays = attention()
    graph = Graph.from_exported(exported)
    layers, choice = measure(graph, questions_of(arrays, 3, 1, 32), ["y"], "bfloat16", LOWER, 60.0)
    assert choice.layers == set(range(LAYERS)) - {SCORES}
    assert [(layer.operation, layer.inputs, layer.outputs) for layer in layers if layer.precision == "float32"] == [
        ("matmul", 9, 6)
    ]
    assert layers[SCORES].reason.startswith("alone it would cost")
    _, others = attention(seed=8)
    assert error_of(to_bfloat16(exported, KeepFloat32()), others) > 2e-2
    assert error_of(to_bfloat16(exported, kept_but(graph, set(choice.layers))), others) < 2e-2


def test_a_layer_that_is_as_fast_in_either_goes_along_and_one_that_loses_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    alike(monkeypatch)
    monkeypatch.setattr(
        sensitivity, "layer_ms", lambda rows, weight, precisions: [2.0, 1.0] if weight.shape[0] > 1 else [1.0, 1.0]
    )
    monkeypatch.setattr(
        sensitivity, "operation_ms", lambda node, values: [1.0, 3.0] if node.name == "matmul_1" else [2.0, 1.0]
    )
    exported, arrays = attention()
    graph, loose = Graph.from_exported(exported), rule_for("bfloat16", 3.0, 10.0)
    layers, choice = measure(graph, questions_of(arrays, 3, 1, 32), ["y"], "bfloat16", loose, 60.0)
    assert choice.layers == {0, 1, 2, 3, 5, 6}
    assert layers[4].reason.startswith("it would gain too little: 3.000 ms in bfloat16")
    assert layers[6].reason.startswith("it goes with its neighbours")


def test_other_operations_are_timed_with_what_they_are_given_in_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []

    def timing(node: Any, values: dict[Any, Any]) -> list[float]:
        given.append((node.name, [tuple(value.shape) for value in values.values()]))
        return [2.0, 1.0]

    alike(monkeypatch)
    monkeypatch.setattr(sensitivity, "operation_ms", timing)
    exported, arrays = attention()
    measure(Graph.from_exported(exported), questions_of(arrays, 3, 1, 32), ["y"], "bfloat16", LOWER, 60.0)
    assert given == [("matmul", [(32, 6, 9), (32, 9, 6)]), ("matmul_1", [(32, 6, 6), (32, 6, 8)])]


def test_an_operation_is_timed_in_both_precisions() -> None:
    exported, arrays = attention(1)
    graph = Graph.from_exported(exported)
    swaps = Swaps(graph, bfloat16_layers(graph), questions_of(arrays, 1, 1, 32), ["y"])
    times: list[float] = []
    node = swaps.layers[SCORES].node
    swaps.show({node: lambda values: times.extend(operation_ms(node, values))})
    assert len(times) == 2 and all(0 < ms < 1e3 for ms in times)
