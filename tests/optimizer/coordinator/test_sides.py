"""A side of a comparison: as uploaded, or packaged by a recipe's steps; and which of the two models a fault is of."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from optimizer.coordinator import sides
from optimizer.coordinator.answer import Answer
from optimizer.coordinator.sides import AFTER, BEFORE, as_packaged, as_uploaded, blamed
from optimizer.errors import FuseworksError
from optimizer.recipe import Recipe, load_recipe
from optimizer.result import Candidate, Evaluation, EvaluationStatus, Performance, Problem, Rewrite, Site
from optimizer.spec import BackendStep, RuntimeSettings, Workload
from tests.optimizer.coordinator.support import context

RECIPE = """
apiVersion: fuseworks.io/v1
kind: Recipe
metadata: {name: merged, version: 1.0.0}
applies_to: {target: {kind: cpu}, graph: {all: [{pass: merge_parallel_linears, min_matches: 2}]}}
steps:
  - {runtime: {huge_pages: true}}
  - {pass: merge_parallel_linears}
  - {precision: bfloat16}
  - {backend: openvino}
"""
WORKLOAD = Workload.model_validate({"inputs": [{"name": "x", "dtype": "float32", "shape": [10, 3]}]})
PASSED = EvaluationStatus.PASSED


@pytest.fixture
def recipe() -> Recipe:
    return load_recipe(RECIPE)


def rewrite(applied: int) -> Rewrite:
    sites = [Site(node=f"linear_{n}", reason="merged") for n in range(applied)]
    refused = [Site(node="linear_9", reason="its bias differs", source="after.py:7")]
    return Rewrite(
        pass_="merge_parallel_linears",
        applied=sites,
        refused=refused,
        nodes_before=9,
        nodes_after=9 - applied,
        seconds=0.1,
    )


def bench(tmp_path: Path, *, applied: int = 2, name: str = "after.py", **policy: Any) -> Any:
    """All that packaging asks of one, with passes that applied so often."""
    shop = SimpleNamespace(rewrite=lambda passes: SimpleNamespace(rewrites=[rewrite(applied)]))
    baseline = Candidate(name="baseline", steps=[BackendStep(backend="eager")], peer=True)
    return SimpleNamespace(
        context=context(tmp_path, **policy),
        answer=Answer(),
        workload=WORKLOAD,
        shop=shop,
        captured=SimpleNamespace(upload=Path(name)),
        baseline=lambda settings: baseline,
    )


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[Candidate]:
    """What was built and verified, all of it right; no process is started."""
    seen: list[Candidate] = []

    def verify(bench: Any, verifier: Any, candidate: Candidate) -> tuple[Evaluation, dict[str, Any]]:
        seen.append(candidate)
        return Evaluation(candidate=candidate, status=PASSED), {"compile_s": 2.5, "inference_precision": "bfloat16"}

    monkeypatch.setattr(sides, "make_verifier", lambda bench: None)
    monkeypatch.setattr(sides, "verified", verify)
    return seen


def ends_so(monkeypatch: pytest.MonkeyPatch, status: EvaluationStatus, problem: FuseworksError | None = None) -> None:
    def verify(bench: Any, verifier: Any, candidate: Candidate) -> tuple[Evaluation, dict[str, Any]]:
        told = Problem.model_validate(problem.document()) if problem else None
        return Evaluation(candidate=candidate, status=status, reason="out0 is off", problem=told), {}

    monkeypatch.setattr(sides, "make_verifier", lambda bench: None)
    monkeypatch.setattr(sides, "verified", verify)


def refusal(role: Any, bench: Any, recipe: Recipe, answer: Answer | None = None) -> FuseworksError:
    with pytest.raises(FuseworksError) as caught:
        as_packaged(role, bench, recipe, answer or Answer())
    return caught.value


def test_the_steps_of_the_recipe_are_the_candidate_and_its_settings_those_it_runs_under(
    tmp_path: Path, recipe: Recipe, verified: list[Candidate]
) -> None:
    answer = Answer()
    side = as_packaged(AFTER, bench(tmp_path), recipe, answer)
    assert verified == [side.candidate] and side.candidate.steps == recipe.steps
    assert (side.candidate.name, side.candidate.why) == ("other", "after.py, packaged by merged")
    assert side.settings == RuntimeSettings(huge_pages=True)
    assert answer.evaluations["other"].status == PASSED


def test_a_recipe_in_a_precision_that_the_policy_leaves_out_is_measured_as_it_is_deployed(
    tmp_path: Path, recipe: Recipe, verified: list[Candidate]
) -> None:
    as_packaged(AFTER, bench(tmp_path, precisions=["float32"]), recipe, Answer())
    assert len(verified) == 1


def test_what_was_measured_tells_of_the_build_too(tmp_path: Path, recipe: Recipe, verified: list[Candidate]) -> None:
    side = as_packaged(AFTER, bench(tmp_path), recipe, Answer())
    times = Performance(median_ms=4, mean_ms=4, p90_ms=5, p99_ms=6, calls=9, processes=3, throughput_per_s=250)
    told = side.measured(times).performance
    assert told is not None
    assert (told.median_ms, told.compile_s, told.inference_precision) == (4, 2.5, "bfloat16")


def test_a_precondition_that_does_not_hold_refuses_the_new_model_with_pass_node_and_line(
    tmp_path: Path, recipe: Recipe, verified: list[Candidate]
) -> None:
    error = refusal(AFTER, bench(tmp_path, applied=1), recipe)
    assert (error.id, error.place) == ("compare:user:after-not-packaged", "applies_to.graph")
    assert error.message.startswith(
        "after.py cannot be packaged as the model that it is compared with: The recipe merged"
    )
    assert "merge_parallel_linears matched once and needs 2: its bias differs at linear_9 (after.py:7)" in error.message
    assert verified == [], "nothing is compiled"


def test_a_machine_that_the_recipe_is_not_for_is_a_fault_of_the_model_compared_with_when_it_comes_first(
    tmp_path: Path, verified: list[Candidate]
) -> None:
    elsewhere = load_recipe(RECIPE.replace("{kind: cpu}", "{kind: cuda}"))
    error = refusal(BEFORE, bench(tmp_path, name="before.py"), elsewhere)
    assert (error.id, error.place) == ("compare:user:before-not-packaged", "applies_to")
    assert "before.py, the model to compare with" in error.message
    assert "it is made for the target cuda, and this run's target is cpu" in error.message


def test_wrong_answers_refuse_the_side_and_stay_in_the_answer(
    tmp_path: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends_so(monkeypatch, EvaluationStatus.INCORRECT_NUMERICS)
    answer = Answer()
    error = refusal(AFTER, bench(tmp_path), recipe, answer)
    assert error.id == "compare:user:after-not-packaged"
    assert "incorrect numerics: out0 is off" in error.message
    assert answer.evaluations["other"].status == EvaluationStatus.INCORRECT_NUMERICS


def test_what_is_ours_is_no_models_fault(tmp_path: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = FuseworksError("compiling:ours:compile-error", engine="openvino", text="no memory")
    ends_so(monkeypatch, EvaluationStatus.COMPILE_ERROR, broken)
    assert refusal(AFTER, bench(tmp_path), recipe).id == "compiling:ours:compile-error"


@pytest.mark.parametrize(("role", "id_"), [(BEFORE, "before"), (AFTER, "after")])
def test_a_fault_while_it_is_measured_names_the_model_too(tmp_path: Path, role: Any, id_: str) -> None:
    with pytest.raises(FuseworksError) as caught, blamed(role, bench(tmp_path, name="m.py")):
        raise FuseworksError("child:user:crashed", signal="SIGSEGV", place="m.py:3", detail="its log")
    error = caught.value
    assert error.id == f"compare:user:{id_}-not-packaged"
    assert (error.place, error.detail) == ("m.py:3", "its log")
    assert "m.py" in error.message and "died of SIGSEGV" in error.message


def test_as_uploaded_it_is_the_baseline_in_default_settings(tmp_path: Path) -> None:
    side = as_uploaded(BEFORE, bench(tmp_path, name="before.py"))
    assert (side.candidate.name, side.candidate.why, side.settings) == ("baseline", "before.py", RuntimeSettings())
    assert side.candidate.steps == [BackendStep(backend="eager")]
