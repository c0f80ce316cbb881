"""bfloat16 and int8 by layer in a run: what is asked of the child, what is proposed, and what a failure costs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from optimizer.coordinator.answer import Answer
from optimizer.coordinator.layer_plans import by_layer, growth, keeping
from optimizer.errors import FuseworksError
from optimizer.optimizing.planner import Facts, Planner
from optimizer.result import LayerPrecision
from optimizer.sandbox import Reply
from optimizer.spec import Dim, KeepFloat32, LayerShape, Policy, RuntimeSettings, Workload, dump_step
from optimizer.verifying.numerics import rule_for
from optimizer.verifying.questions import Question
from tests.optimizer.coordinator.support import context

ENGINES: dict[str, str | None] = {"eager": None, "aot_inductor": None}


def layer(inputs: int, outputs: int, precision: str) -> dict[str, Any]:
    return {
        "node": "linear",
        "inputs": inputs,
        "outputs": outputs,
        "rows": 4,
        "precision": precision,
        "tried": "int8",
        "error": 1e-3,
        "share_of_allowed": 0.1,
        "float32_ms": 2.0,
        "tried_ms": 1.0,
        "reason": "measured",
    }


class Child:
    """Answers as it is told to, and remembers what it was asked."""

    def __init__(
        self, layers: list[dict[str, Any]] | FuseworksError, in_bfloat16: list[dict[str, Any]] | None = None
    ) -> None:
        self.layers, self.in_bfloat16, self.asked = layers, in_bfloat16, dict[str, Any]()

    def call(self, op: str, arrays: list[np.ndarray], **fields: Any) -> Reply:
        self.asked = {"op": op, "arrays": arrays, **fields}
        if isinstance(self.layers, FuseworksError):
            raise self.layers
        layers = self.layers if fields["precision"] == "int8" else self.in_bfloat16 or []
        return Reply({"layers": layers, "share_of_allowed": 0.3}, [])

    def path(self, name: str) -> str:
        return name

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def question(items: int) -> Question:
    return Question("q", "random", [np.zeros(items)], items, truth=[np.ones(items)])


class Verifier:
    captured = None
    truths = SimpleNamespace(pooled=[question(4), question(4), question(8), question(4), question(4)], names=["y"])

    def rule(self, precision: str) -> Any:
        return rule_for(precision, 3.0, None)  # type: ignore[arg-type]


def made(tmp_path: Path, child: Child, *, precisions: Any = ("float32", "int8"), format: str = "pt2") -> Any:
    run = context(tmp_path, budget_s=100)
    run.child = lambda name, inputs=None: child  # type: ignore[method-assign,assignment,misc,return-value]
    shop = SimpleNamespace(rewrite=lambda passes: SimpleNamespace(model=Path("rewritten.pt2")))
    workload = Workload.model_validate(
        {
            "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", "length"]}],
            "dims": {"batch": {"serve": [4, 8], "max": 64}, "length": {"serve": [6, 3], "max": 9}},
        }
    )
    bench = SimpleNamespace(
        workload=workload, context=run, answer=Answer(), shop=shop, captured=SimpleNamespace(format=format)
    )
    facts = Facts("pt2", "eager", ENGINES, RuntimeSettings(), Policy(precisions=list(precisions)), None)
    return bench, Planner(facts)


def proposed(bench: Any, planner: Planner) -> list[Any]:
    return by_layer(bench, planner, Verifier())  # type: ignore[arg-type]


def test_the_layers_that_were_not_chosen_are_kept_by_their_shape(tmp_path: Path) -> None:
    layers = [layer(8, 16, "int8"), layer(8, 16, "float32"), layer(16, 1, "float32")]
    bench, planner = made(tmp_path, Child(layers))
    (candidate,) = proposed(bench, planner)
    assert dump_step(candidate.steps[0]) == {
        "precision": "int8",
        "keep_float32": {"layers": [{"inputs": 8, "outputs": 16, "nth": [1]}, {"inputs": 16, "outputs": 1}]},
    }
    (plan,) = bench.answer.layer_plans
    assert (plan.candidates, plan.share_of_allowed, plan.samples) == ([candidate.name], 0.3, 12)
    assert [one.precision for one in plan.layers] == ["int8", "float32", "float32"]


def test_the_child_is_asked_three_sets_of_one_size_with_their_truths(tmp_path: Path) -> None:
    child = Child([layer(8, 16, "float32")])
    proposed(*made(tmp_path, child))
    assert (child.asked["op"], child.asked["sets"], child.asked["items"]) == ("optimizing.sensitivity", 3, 4)
    assert [array.tolist() for array in child.asked["arrays"]] == [[0.0] * 4, [1.0] * 4] * 3
    assert child.asked["rule"] == {"ratio": 3.0, "floor": 1e-5, "bound": 1e-2, "limit": None}


def test_the_child_learns_how_many_times_as_many_rows_other_served_sizes_have(tmp_path: Path) -> None:
    child = Child([layer(8, 16, "float32")])
    bench, planner = made(tmp_path, child)
    proposed(bench, planner)
    assert child.asked["growth"] == 1.0  # 8 of 3 are as many as 4 of 6
    one_dim = bench.workload.model_copy(update={"dims": {**bench.workload.dims, "length": Dim(serve=[6], max=9)}})
    assert growth(one_dim) == 2.0
    assert growth(one_dim.model_copy(update={"dims": {}})) == 1.0


def test_where_no_layer_is_chosen_nothing_is_proposed_and_the_reasons_stay(tmp_path: Path) -> None:
    bench, planner = made(tmp_path, Child([layer(8, 16, "float32")]))
    assert proposed(bench, planner) == []
    assert [plan.candidates for plan in bench.answer.layer_plans] == [[]]


def test_all_layers_without_a_rewrite_are_what_a_peer_is_already(tmp_path: Path) -> None:
    bench, planner = made(tmp_path, Child([layer(8, 16, "int8"), layer(8, 1, "int8")]))
    assert proposed(bench, planner) == []
    assert bench.answer.layer_plans[0].candidates == []


def test_what_is_not_int8_is_in_bfloat16_too_where_that_is_allowed(tmp_path: Path) -> None:
    bench, planner = made(tmp_path, Child([layer(8, 16, "int8")]), precisions=["float32", "bfloat16", "int8"])
    (mixed,) = proposed(bench, planner)  # with the rest in float32 it is a peer
    assert mixed.name == "aot_inductor + int8 by layer + bfloat16"
    assert dump_step(mixed.steps[0]) == {"precision": "int8", "rest": "bfloat16"}
    assert bench.answer.layer_plans[0].candidates == [mixed.name]


def test_layers_with_weights_alone_in_int8_are_named_so_and_all_of_them_are_no_peer(tmp_path: Path) -> None:
    few = {**layer(64, 16, "int8"), "weight_only": True}
    bench, planner = made(tmp_path, Child([few, layer(8, 1, "int8"), {**few, "precision": "float32"}]))
    (candidate,) = proposed(bench, planner)
    assert dump_step(candidate.steps[0]) == {
        "precision": "int8",
        "keep_float32": {"layers": [{"inputs": 64, "outputs": 16, "nth": [1]}]},
        "weight_only": [{"inputs": 64, "outputs": 16, "nth": [0]}],
    }
    bench, planner = made(tmp_path, Child([few]))
    assert [one.name for one in proposed(bench, planner)] == ["aot_inductor + int8 by layer"]


def low(inputs: int, outputs: int, precision: str, operation: str = "linear") -> dict[str, Any]:
    return {**layer(inputs, outputs, precision), "tried": "bfloat16", "operation": operation}


def test_bfloat16_by_layer_keeps_what_was_not_chosen_by_operation_and_shape(tmp_path: Path) -> None:
    child = Child([], [low(8, 16, "bfloat16"), low(8, 6, "float32", "matmul"), low(8, 6, "bfloat16", "matmul")])
    bench, planner = made(tmp_path, child, precisions=["float32", "bfloat16"])
    (candidate,) = proposed(bench, planner)
    assert (candidate.name, candidate.peer) == ("aot_inductor + bfloat16 by layer", False)
    assert dump_step(candidate.steps[0]) == {
        "precision": "bfloat16",
        "keep_float32": {"layers": [{"op": "matmul", "inputs": 8, "outputs": 6, "nth": [0]}]},
    }
    (plan,) = bench.answer.layer_plans
    assert plan.candidates == [candidate.name]
    assert child.asked["rule"] == {"ratio": 3.0, "floor": 1e-5, "bound": 1e-2, "limit": None}


def test_where_every_layer_goes_to_bfloat16_it_is_the_whole_graph_which_is_proposed_anyway(tmp_path: Path) -> None:
    bench, planner = made(tmp_path, Child([], [low(8, 16, "bfloat16")]), precisions=["float32", "bfloat16"])
    assert proposed(bench, planner) == []
    (plan,) = bench.answer.layer_plans
    assert plan.candidates == ["aot_inductor + bfloat16"]
    assert plan.candidates[0] in {candidate.name for candidate in planner.low_precision()}


def test_each_precision_has_a_plan_of_its_own(tmp_path: Path) -> None:
    child = Child(
        [{**layer(8, 16, "int8"), "node": "a"}, {**layer(8, 1, "float32"), "node": "b"}],
        [{**low(8, 16, "float32"), "node": "a"}, {**low(8, 1, "bfloat16"), "node": "b"}],
    )
    bench, planner = made(tmp_path, child, precisions=["float32", "bfloat16", "int8"])
    assert [candidate.name for candidate in proposed(bench, planner)] == [
        "aot_inductor + bfloat16 by layer",
        "aot_inductor + int8 by layer",
        "aot_inductor + int8 by layer + bfloat16",
    ]
    assert [plan.layers[0].tried for plan in bench.answer.layer_plans] == ["bfloat16", "int8"]


def test_what_cannot_bear_bfloat16_stays_float32_beside_int8_too(tmp_path: Path) -> None:
    layers = [layer(8, 16, "int8"), layer(8, 16, "float32")]
    for place, one in enumerate(layers):
        one["node"] = f"linear_{place}"
    scores = low(8, 6, "float32", "matmul")
    in_bfloat16 = [{**one, "precision": "bfloat16", "tried": "bfloat16"} for one in layers]
    bench, planner = made(tmp_path, Child(layers, [*in_bfloat16, scores]), precisions=["float32", "bfloat16", "int8"])
    mixed = proposed(bench, planner)[-1]
    assert dump_step(mixed.steps[0]) == {
        "precision": "int8",
        "keep_float32": {"layers": [{"inputs": 8, "outputs": 16, "nth": [1]}]},
        "rest": "bfloat16",
        "rest_keep_float32": {"layers": [{"op": "matmul", "inputs": 8, "outputs": 6}]},
    }


def test_where_nothing_but_int8_gains_no_rest_goes_to_bfloat16(tmp_path: Path) -> None:
    one = {**layer(8, 16, "int8"), "node": "linear_0"}
    rest = {**low(8, 6, "float32", "matmul"), "node": "matmul"}
    child = Child([one, layer(8, 1, "float32")], [rest])
    bench, planner = made(tmp_path, child, precisions=["float32", "bfloat16", "int8"])
    assert [candidate.name for candidate in proposed(bench, planner)] == ["aot_inductor + int8 by layer"]


@pytest.mark.parametrize("given", [{"precisions": ["float32"]}, {"format": "onnx"}])
def test_nothing_is_measured_where_a_lower_precision_may_not_or_cannot_be_used(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    child = Child([])
    assert proposed(*made(tmp_path, child, **given)) == []
    assert child.asked == {}


def test_what_is_kept_for_the_judgement_is_not_spent_on_layers(tmp_path: Path) -> None:
    child = Child([])
    bench, planner = made(tmp_path, child)
    bench.context.remaining_s = lambda: 29.0  # of 100
    assert proposed(bench, planner) == []
    assert child.asked == {}
    assert "kept for the judgement" in bench.answer.notes[0]


def test_a_graph_that_cannot_be_measured_costs_this_candidate_only(tmp_path: Path) -> None:
    error = FuseworksError("child:user:exception", type="RuntimeError", text="no product")
    bench, planner = made(tmp_path, Child(error))
    assert proposed(bench, planner) == []
    (note,) = bench.answer.notes
    assert note.startswith("The layers could not be measured in int8 one by one: ") and "no product" in note


def test_an_answer_that_is_none_is_the_childs_fault(tmp_path: Path) -> None:
    bench, planner = made(tmp_path, Child([{"node": "x"}]))
    assert proposed(bench, planner) == []
    assert "bad layers" in bench.answer.notes[0]


def test_what_is_kept_is_said_in_the_fewest_words() -> None:
    layers = [LayerPrecision.model_validate(layer(8, 16, name)) for name in ("float32", "float32")]
    assert keeping(layers) == KeepFloat32(layers=[LayerShape(inputs=8, outputs=16)])
