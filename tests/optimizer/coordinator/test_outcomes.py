"""What worked on graphs alike is tried first, and says so; nothing of a model but its operations is remembered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from optimizer.coordinator.outcomes import MOST_LINES, Outcomes, likeness, most_promising_first
from optimizer.result import Candidate, Evaluation, EvaluationStatus, Finding
from optimizer.spec import BackendStep, PassStep

DIN = {"linear": 10, "embedding": 5, "cat": 3, "softmax": 2}


def outcomes(file: Path | None, operations: dict[str, int] | None = None, **changes: Any) -> Outcomes:
    fields = {"format": "pt2", "target": "cpu", "threads": 2, "mode": "inference", **changes}
    return Outcomes(file, operations=DIN if operations is None else operations, **fields)


def plan(name: str, *, rewritten: bool = False) -> Candidate:
    steps: list[Any] = [PassStep(pass_="a")] if rewritten else []
    return Candidate(name=name, steps=[*steps, BackendStep(backend=name.split()[0])], why="an engine")


def evaluated(**speedups: float | None) -> dict[str, Evaluation]:
    found = {}
    for name, speedup in speedups.items():
        status = EvaluationStatus.PASSED if speedup else EvaluationStatus.CRASHED
        one = Evaluation(candidate=plan(name), status=status, reason="died", screened_speedup=speedup)
        found[name] = one
    return found


@pytest.mark.parametrize(
    ("other", "alike"),
    [(DIN, 1.0), ({}, 0.0), ({"conv2d": 9}, 0.0), ({**DIN, "linear": 5}, 0.75), ({**DIN, "mul": 5}, 0.8)],
)
def test_graphs_are_alike_by_the_operations_that_they_share(other: dict[str, int], alike: float) -> None:
    assert likeness(DIN, other) == likeness(other, DIN) == alike


def test_what_was_remembered_is_expected_on_the_same_graph(tmp_path: Path) -> None:
    file = tmp_path / "cache" / "outcomes.jsonl"
    outcomes(file).remember(evaluated(openvino=2.0, eager=None, inductor=1.5))
    found = outcomes(file).expected()
    assert {name: one.speedup for name, one in found.items()} == pytest.approx({"openvino": 2.0, "inductor": 1.5})
    assert str(found["openvino"]) == "2.00x on a graph seen on this host, 100% alike"


def test_several_graphs_count_by_how_alike_they_are(tmp_path: Path) -> None:
    file = tmp_path / "outcomes.jsonl"
    outcomes(file).remember(evaluated(openvino=4.0))
    outcomes(file, {**DIN, "linear": 5}).remember(evaluated(openvino=1.0))
    outcomes(file, {"conv2d": 50}).remember(evaluated(openvino=100.0))
    one = outcomes(file).expected()["openvino"]
    assert one.speedup == pytest.approx(4.0 ** (1 / 1.75)), "the mean of the logarithms, weighted 1 and 0.75"
    assert (one.graphs, one.alike) == (2, 1.0)


@pytest.mark.parametrize("other", [{"threads": 1}, {"target": "cuda:sm_90"}, {"format": "onnx"}, {"mode": "training"}])
def test_what_was_measured_under_other_conditions_says_nothing(tmp_path: Path, other: dict[str, Any]) -> None:
    file = tmp_path / "outcomes.jsonl"
    outcomes(file, **other).remember(evaluated(openvino=2.0))
    assert outcomes(file).expected() == {}


def test_nothing_but_operations_and_speedups_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "outcomes.jsonl"
    outcomes(file).remember(evaluated(openvino=2.0))
    assert json.loads(file.read_text()) == {
        "format": "pt2",
        "target": "cpu",
        "threads": 2,
        "mode": "inference",
        "operations": DIN,
        "speedups": {"openvino": 2.0},
    }


def test_variants_of_one_model_are_not_kept_under_names_that_mean_something_else_on_another(tmp_path: Path) -> None:
    file = tmp_path / "outcomes.jsonl"
    names = ("aot_inductor + rewrites", "aot_inductor + rewrites - fuse", "openvino @ 1 thread")
    outcomes(file).remember(evaluated(**dict.fromkeys(names, 2.0)))
    assert set(outcomes(file).expected()) == {"aot_inductor + rewrites"}


def test_the_oldest_runs_are_forgotten_and_what_is_unreadable_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "outcomes.jsonl"
    file.write_text("no JSON\n" + '{"format": "pt2"}\n' * MOST_LINES)
    outcomes(file).remember(evaluated(openvino=2.0))
    assert len(file.read_text().splitlines()) == MOST_LINES
    assert set(outcomes(file).expected()) == {"openvino"}


def test_a_screening_that_is_too_good_to_be_believed_counts_for_no_more(tmp_path: Path) -> None:
    file = tmp_path / "outcomes.jsonl"
    outcomes(file).remember(evaluated(openvino=232.0))
    assert outcomes(file).expected()["openvino"].speedup == pytest.approx(10.0)


def test_without_a_file_nothing_is_remembered_and_a_folder_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    outcomes(None).remember(evaluated(openvino=2.0))
    assert outcomes(None).expected() == {}
    (tmp_path / "in the way").write_text("")
    file = tmp_path / "in the way" / "outcomes.jsonl"
    outcomes(file).remember(evaluated(openvino=2.0))
    assert outcomes(file).expected() == {}


def test_what_gained_most_on_graphs_alike_comes_first_and_tells_it(tmp_path: Path) -> None:
    file = tmp_path / "outcomes.jsonl"
    outcomes(file).remember(evaluated(openvino=2.0, onnxruntime=0.2))
    plans = [plan("aot_inductor"), plan("onnxruntime"), plan("openvino")]
    ordered = most_promising_first(plans, outcomes(file).expected(), [])
    assert [one.name for one in ordered] == ["openvino", "aot_inductor", "onnxruntime"]
    assert ordered[0].why == "an engine; 2.00x on a graph seen on this host, 100% alike"
    assert ordered[1].why == "an engine"


def test_without_history_findings_decide_whether_rewrites_come_first() -> None:
    plans = [plan("aot_inductor"), plan("aot_inductor + rewrites", rewritten=True)]
    finding = Finding(rule="rewritable_structure", severity="medium", title="t", evidence={"share_of_time": 0.4})
    assert [one.name for one in most_promising_first(plans, {}, [finding])] == [plans[1].name, plans[0].name]
    assert most_promising_first(plans, {}, []) == plans, "as they came"
