"""A replay's best peer: the same engines as an optimize run tries without rewrites, within the time that is left."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from optimizer.coordinator import peers
from optimizer.coordinator.answer import Answer
from optimizer.coordinator.judging import FinalScreening
from optimizer.errors import FuseworksError
from optimizer.optimizing.planner import Facts, Planner
from optimizer.result import Candidate, Evaluation, EvaluationStatus
from optimizer.spec import BackendStep, PassStep, Policy, PrecisionStep, RuntimeSettings
from tests.optimizer.coordinator.support import context

ENGINES = {"eager": None, "aot_inductor": None, "openvino": None, "onnxruntime": "not installed"}
SETTINGS = RuntimeSettings()
RECIPE = Candidate(name="recipe", steps=[PassStep(pass_="split"), BackendStep(backend="aot_inductor")])
PASSED, WRONG = EvaluationStatus.PASSED, EvaluationStatus.INCORRECT_NUMERICS


class Builds:
    def __init__(self, bench: Any) -> None:
        self.bench = bench

    def submit(self, candidates: Any) -> None:
        pass

    def wait(self, candidates: Any, deadline: float) -> None:
        pass

    def ended(self, candidate: Candidate) -> bool:
        return candidate.name not in self.bench.never_built

    def close(self) -> None:
        self.bench.closed = True


@pytest.fixture
def bench(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    made = SimpleNamespace(
        context=context(tmp_path, budget_s=1000), answer=Answer(), never_built=set(), closed=False, screened=[]
    )
    policy = Policy(precisions=["float32", "bfloat16"])
    facts = Facts("pt2", "eager", ENGINES, SETTINGS, policy, None)
    monkeypatch.setattr(peers, "planner_of", lambda bench, settings: Planner(facts))
    monkeypatch.setattr(peers, "Builds", Builds)

    def final_screening(bench: Any, candidates: Any, settings: Any) -> FinalScreening:
        bench.screened = [c.name for c in candidates]
        return FinalScreening(bench.finals, bench.failures, 1.0)

    monkeypatch.setattr(peers.judging, "final_screening", final_screening)
    made.finals, made.failures = {"aot_inductor": 1.9, "openvino": 2.1}, {}
    return made


class Judge:
    """Screens each engine as it is told to."""

    def __init__(self, bench: Any, **speedups: float | None) -> None:
        self.bench, self.speedups, self.asked = bench, speedups, []

    def evaluate(self, candidate: Candidate) -> Evaluation:
        self.asked.append(candidate.name)
        speedup = self.speedups.get(candidate.steps[-1].backend)  # type: ignore[union-attr]
        evaluation = Evaluation(
            candidate=candidate,
            status=WRONG if speedup is None else PASSED,
            reason="wrong" if speedup is None else None,
            screened_speedup=speedup,
        )
        self.bench.answer.file(evaluation)
        return evaluation


def test_every_engine_is_tried_and_the_best_in_fresh_processes_is_the_peer(bench: Any) -> None:
    judge = Judge(bench, aot_inductor=2.2, openvino=2.0)
    peer = peers.best_peer(bench, RECIPE, judge, SETTINGS)  # type: ignore[arg-type]
    assert judge.asked == ["aot_inductor", "openvino"]
    assert bench.screened == ["aot_inductor", "openvino"], "the faster of the screening first"
    assert peer is not None and (peer.name, peer.peer) == ("openvino", True)
    assert bench.answer.evaluations["onnxruntime"].reason == "not installed"
    assert bench.closed


def test_a_recipe_in_a_lower_precision_is_held_against_engines_in_the_same(bench: Any) -> None:
    recipe = Candidate(
        name="recipe",
        steps=[PassStep(pass_="split"), PrecisionStep(precision="bfloat16"), BackendStep(backend="openvino")],
    )
    judge = Judge(bench, aot_inductor=2.2, openvino=None)
    peer = peers.best_peer(bench, recipe, judge, SETTINGS)  # type: ignore[arg-type]
    assert judge.asked == ["openvino + bfloat16", "aot_inductor + bfloat16"]
    assert peer is not None and peer.name == "aot_inductor + bfloat16"
    assert bench.screened == [], "one alone need not be told from others"


def test_a_recipe_that_is_an_engine_alone_is_not_its_own_peer(bench: Any) -> None:
    recipe = Candidate(name="recipe", steps=[BackendStep(backend="openvino")])
    judge = Judge(bench, aot_inductor=2.2, openvino=2.0)
    peer = peers.best_peer(bench, recipe, judge, SETTINGS)  # type: ignore[arg-type]
    assert judge.asked == ["aot_inductor"]
    assert peer is not None and peer.name == "aot_inductor"


def test_an_engine_that_fails_in_the_last_screening_is_no_peer(bench: Any) -> None:
    bench.failures = {"openvino": FuseworksError("child:user:crashed", signal="SIGSEGV")}
    bench.finals = {"aot_inductor": 1.9}
    peer = peers.best_peer(bench, RECIPE, Judge(bench, aot_inductor=2.0, openvino=2.2), SETTINGS)  # type: ignore[arg-type]
    assert peer is not None and peer.name == "aot_inductor"
    assert bench.answer.evaluations["openvino"].status == EvaluationStatus.CRASHED


def test_where_no_engine_is_right_there_is_no_peer(bench: Any) -> None:
    assert peers.best_peer(bench, RECIPE, Judge(bench), SETTINGS) is None  # type: ignore[arg-type]


def test_what_does_not_fit_into_the_time_is_named_and_not_tried(bench: Any) -> None:
    bench.never_built.add("aot_inductor")
    bench.context.granted_s = -720.0  # 280 s of 1000 are left, and 300 are the judgement's
    judge = Judge(bench, openvino=2.0)
    assert peers.best_peer(bench, RECIPE, judge, SETTINGS) is None  # type: ignore[arg-type]
    assert judge.asked == []
    reasons = {name: one.reason for name, one in bench.answer.evaluations.items()}
    assert reasons["aot_inductor"] == "the time budget was over before it was built"
    assert reasons["openvino"] == "the rest of the time budget is kept for judging the recipe"
