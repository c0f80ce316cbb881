"""Settings that gain are judged on both sides, and the peer as it was beside; others change nothing."""

from __future__ import annotations

import math
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from optimizer.benchmarking.bursts import Burst, Entrant
from optimizer.benchmarking.sets import MeasuredSet
from optimizer.coordinator import settings_search
from optimizer.coordinator.answer import Answer
from optimizer.coordinator.settings_search import tune
from optimizer.optimizing.planner import Facts, Planner
from optimizer.result import Candidate, Evaluation, EvaluationStatus, Profile
from optimizer.spec import BackendStep, Policy, RuntimeSettings, RuntimeStep, Workload
from tests.optimizer.coordinator.support import context

WINNER = Candidate(name="rewritten", steps=[BackendStep(backend="aot_inductor")])
PEER = Candidate(name="openvino", steps=[BackendStep(backend="openvino")], peer=True)
WORKLOAD = Workload.model_validate({"inputs": [{"name": "x", "dtype": "float32", "shape": [8, 4]}]})


class Scene:
    """A call takes the milliseconds of `times_ms`, by the label of its settings; `fails`: names that do not verify."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, **times_ms: float) -> None:
        self.times_ms = {"": 10.0, "1 thread": 10.0, "sleeping threads": 10.0, "bound threads": 10.0}
        self.times_ms |= {name.replace("_", " "): ms for name, ms in times_ms.items()}
        self.fails: set[str] = set()
        self.unbuilt: set[str] = set()
        self.submitted: list[str] = []
        self.measured: list[list[str]] = []
        profile = Profile(total_ms=10.0, threads_ms={1: 10.0, 2: 10.0})
        self.bench: Any = SimpleNamespace(
            context=context(tmp_path, budget_s=1000),
            answer=Answer(profile=profile),
            shop=SimpleNamespace(is_built=lambda plan: plan.name not in self.unbuilt),
            verifier=object(),
            workload=WORKLOAD,
            baseline=lambda settings: None,
        )
        self.builds: Any = SimpleNamespace(
            submit=lambda plans: self.submitted.extend(plan.name for plan in plans),
            wait=lambda plans, deadline: None,
            took_s=lambda candidate: 12.0,
        )
        self.policy = Policy()
        monkeypatch.setattr(settings_search, "starter", lambda *_: None)
        monkeypatch.setattr(settings_search, "drawing", lambda *_: None)
        monkeypatch.setattr(settings_search, "check_of", lambda *_: None)
        monkeypatch.setattr(settings_search, "verified", self.verify)
        monkeypatch.setattr(settings_search, "measure_set", self.measure)

    def verify(self, bench: Any, verifier: Any, candidate: Candidate) -> Any:
        if candidate.name in self.fails:
            status = EvaluationStatus.INCORRECT_NUMERICS
            return Evaluation(candidate=candidate, status=status, reason="off"), {}
        return Evaluation(candidate=candidate, status=EvaluationStatus.PASSED), {"compile_s": 3.0}

    def measure(self, starts: Any, draw: Any, **_: Any) -> MeasuredSet:
        self.measured.append(list(starts))
        entrants = {}
        for name in starts:
            ms = 20.0 if name == "baseline" else self.times_ms[name.partition(" @ ")[2]]
            burst = Burst(np.array([ms * 1e6], dtype=np.int64), 0, 0, 0)
            entrants[name] = Entrant(name, None, bursts=[burst])  # type: ignore[arg-type]
        return MeasuredSet(entrants, {}, seconds=8.0, load_average=0.0)

    def __call__(self, peer: Candidate | None = PEER, left_s: float = 300.0, winner: Candidate = WINNER) -> Any:
        facts = Facts("pt2", "eager", {"aot_inductor": None}, RuntimeSettings(), self.policy, None)
        planner, deadline = Planner(facts), time.monotonic() + left_s
        return tune(self.bench, planner, self.builds, winner, peer, contender_s=2.0, deadline=deadline)


def test_settings_that_gain_nothing_change_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    scene = Scene(monkeypatch, tmp_path, one_thread=9.9)
    assert scene() == (WINNER, PEER, [])
    names = ["rewritten", *(f"rewritten @ {label}" for label in ("1 thread", "sleeping threads", "bound threads"))]
    assert scene.measured == [[*names, "baseline"]]
    assert scene.bench.answer.evaluations == {}


def test_the_fastest_settings_are_judged_on_both_sides_and_the_peer_as_it_was_beside(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    scene = Scene(monkeypatch, tmp_path, sleeping_threads=9.5)
    scene.times_ms["1 thread"] = 8.0
    winner, peer, beside = scene()
    assert (winner.name, peer.name, beside) == ("rewritten @ 1 thread", "openvino @ 1 thread", [PEER])
    assert [step.runtime.threads for one in (winner, peer) for step in one.steps if isinstance(step, RuntimeStep)] == [
        1,
        1,
    ]
    assert peer.peer and not winner.peer
    filed = scene.bench.answer.evaluations
    assert set(filed) == {"rewritten @ 1 thread", "openvino @ 1 thread"}
    assert filed["rewritten @ 1 thread"].screened_speedup == pytest.approx(20.0 / 8.0)
    assert filed["rewritten @ 1 thread"].performance.compile_s == 3.0
    assert filed["rewritten @ 1 thread"].performance.screened


def test_a_gain_is_at_least_three_percent(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    scene = Scene(monkeypatch, tmp_path, bound_threads=10.0 / 1.029)
    assert scene().winner is WINNER
    scene.times_ms["bound threads"] = 10.0 / 1.031
    assert scene().winner.name == "rewritten @ bound threads"


@pytest.mark.parametrize(
    ("fails", "left"),
    [
        ("rewritten @ 1 thread", ("rewritten", "openvino", [])),
        ("openvino @ 1 thread", ("rewritten @ 1 thread", "openvino", [])),
    ],
)
def test_what_is_not_correct_in_its_new_settings_is_not_judged_in_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, fails: str, left: Any
) -> None:
    scene = Scene(monkeypatch, tmp_path)
    scene.times_ms["1 thread"] = 8.0
    scene.fails = {fails}
    winner, peer, beside = scene()
    assert (winner.name, peer.name, beside) == left
    assert scene.bench.answer.evaluations[fails].status == EvaluationStatus.INCORRECT_NUMERICS


def test_what_was_not_built_in_time_is_not_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    scene = Scene(monkeypatch, tmp_path)
    scene.times_ms["1 thread"] = 8.0
    scene.unbuilt = {"rewritten @ 1 thread"}
    assert scene().winner is WINNER
    assert "rewritten @ 1 thread" not in scene.measured[0]


# two builds of 12 s, of winner and peer; five contenders of 2 s; two verifications of 4 s
@pytest.mark.parametrize(("left_s", "looked"), [(2 * 12 + 10 + 8 + 2, True), (2 * 12 + 10 + 8 - 1, False)])
def test_it_is_not_begun_where_the_judgement_could_not_begin_in_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, left_s: float, looked: bool
) -> None:
    scene = Scene(monkeypatch, tmp_path)
    scene(left_s=left_s)
    assert bool(scene.measured) == looked


@pytest.mark.parametrize(("policy", "target"), [({"runtime_settings": False}, "cpu"), ({}, "cuda:sm_90")])
def test_settings_are_a_processors_and_the_policys(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, policy: Any, target: str
) -> None:
    scene = Scene(monkeypatch, tmp_path)
    scene.policy = Policy(**policy)
    scene.bench.context.spec = scene.bench.context.spec.model_copy(update={"target": target})
    assert scene() == (WINNER, PEER, [])
    assert (scene.submitted, scene.measured) == ([], [])


def test_a_winner_without_a_peer_is_tuned_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    scene = Scene(monkeypatch, tmp_path, bound_threads=8.0)
    assert math.isclose(scene.times_ms["bound threads"], 8.0)
    winner, peer, beside = scene(peer=None)
    assert (winner.name, peer, beside) == ("rewritten @ bound threads", None, [])


def test_an_engine_that_leads_by_itself_is_judged_beside_itself_as_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    scene = Scene(monkeypatch, tmp_path, **{"1_thread": 8.0})
    winner, peer, beside = scene(peer=PEER, winner=PEER)
    assert (winner.name, peer, beside) == ("openvino @ 1 thread", None, [PEER])
    assert scene.bench.answer.evaluations["openvino @ 1 thread"].performance is not None
    assert scene.submitted == ["openvino @ 1 thread"], "OpenMP's settings are not for it, and it is built once"
