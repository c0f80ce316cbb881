"""When the winner is profiled, what of the budget is kept for it, and that a profile never costs a run anything."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from optimizer.coordinator import prepare, winner_profile
from optimizer.coordinator.answer import Answer
from optimizer.coordinator.winner_profile import EVERY_CALL, PROCESS_S, profile_both, profile_winner, reserve_s
from optimizer.errors import FuseworksError
from optimizer.profiling.document import Profile
from optimizer.result import Candidate, Evaluation, EvaluationStatus, Event, Performance
from optimizer.spec import BackendStep
from tests.optimizer.coordinator.support import context

FOUND = Profile(total_ms=1.0, candidate="winner")


class Shop:
    """Compiled in 30 s; keeps what was built with marks."""

    def __init__(self) -> None:
        self.marked: list[str] = []

    def build(self, candidate: Candidate) -> SimpleNamespace:
        return SimpleNamespace(compile_s=30.0)

    def build_marked(self, candidate: Candidate, *, timeout_s: float) -> Path:
        self.marked.append(candidate.name)
        self.timeout_s = timeout_s
        return Path("marked")


def winner(backend: str = "aot_inductor") -> Candidate:
    return Candidate(name="winner", steps=[BackendStep(backend=backend)])


def bench(tmp_path: Path, *, budget_s: float = 100.0, target: str = "cpu", median_ms: float | None = None) -> Any:
    events: list[Event] = []
    made = context(tmp_path, events, budget_s=budget_s)
    made.spec = made.spec.model_copy(update={"target": target})
    answer = Answer()
    if median_ms is not None:
        performance = Performance(
            median_ms=median_ms, mean_ms=1, p90_ms=1, p99_ms=1, calls=1, processes=1, throughput_per_s=1
        )
        passed = EvaluationStatus.PASSED
        answer.file(Evaluation(candidate=winner(), status=passed, performance=performance))
    return SimpleNamespace(context=made, answer=answer, shop=Shop(), events=events)


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Path | None]]:
    """Every candidate that was profiled, with the artifact that was looked into."""
    seen: list[tuple[str, Path | None]] = []

    def profiled(bench: Any, candidate: Candidate, *, timeout_s: float, marked: Path | None = None) -> Profile:
        assert 0 < timeout_s <= bench.context.spec.policy.budget_s
        seen.append((candidate.name, marked))
        return FOUND

    monkeypatch.setattr(winner_profile, "profiled", profiled)
    return seen


# ---- what is kept of the budget ------------------------------------------------------------------------------------


def test_an_artifact_that_is_compiled_once_more_is_paid_for(tmp_path: Path) -> None:
    assert reserve_s(bench(tmp_path), winner("aot_inductor")) == PROCESS_S + 30.0
    assert reserve_s(bench(tmp_path), winner("openvino")) == PROCESS_S


def test_slow_calls_are_paid_for(tmp_path: Path) -> None:
    # five calls and three before them, looked at and not: at 500 ms these are 8 s, and half as much for the looking
    assert EVERY_CALL == 24
    assert reserve_s(bench(tmp_path, median_ms=500.0), winner("openvino")) == PROCESS_S + 12.0


def test_nothing_is_kept_for_a_backend_without_a_profile(tmp_path: Path) -> None:
    assert reserve_s(bench(tmp_path, target="cuda:sm_90"), winner("aot_inductor")) == 0.0


# ---- the decision --------------------------------------------------------------------------------------------------


def test_a_winner_whose_kernels_record_nothing_is_built_once_more(tmp_path: Path, looked_at: Any) -> None:
    scene = bench(tmp_path)
    profile_winner(scene, winner())
    assert scene.shop.marked == ["winner"]
    assert scene.shop.timeout_s <= 100.0, "within the budget"
    assert looked_at == [("winner", Path("marked"))]
    assert scene.answer.profile_after is FOUND
    assert (scene.answer.notes, scene.answer.not_profiled_because) == ([], "")
    assert scene.context.events.stages_s["profiling"] >= 0.0


def test_an_engine_with_a_profile_of_its_own_is_looked_at_as_it_was_judged(tmp_path: Path, looked_at: Any) -> None:
    scene = bench(tmp_path)
    profile_winner(scene, winner("onnxruntime"))
    assert (scene.shop.marked, looked_at) == ([], [("winner", None)])


def test_too_little_time_is_a_note_and_nothing_is_begun(tmp_path: Path, looked_at: Any) -> None:
    scene = bench(tmp_path, budget_s=41.4)
    profile_winner(scene, winner())
    assert (scene.shop.marked, looked_at, scene.answer.profile_after) == ([], [], None)
    reason = "41 s of the time budget were left, and it takes some 42 s"
    assert scene.answer.not_profiled_because == reason
    assert scene.answer.notes == [f"winner was not profiled: {reason}"]


def test_a_budget_that_is_over_is_not_told_as_less_than_none(tmp_path: Path, looked_at: Any) -> None:
    scene = bench(tmp_path)
    scene.context.granted_s = -500.0
    profile_winner(scene, winner())
    assert scene.answer.not_profiled_because.startswith("0 s of the time budget were left")


def test_a_backend_without_a_profile_says_why(tmp_path: Path, looked_at: Any) -> None:
    scene = bench(tmp_path, target="cuda:sm_90")
    profile_winner(scene, winner())
    assert looked_at == []
    assert scene.answer.not_profiled_because.startswith("PyTorch AOTInductor: its kernels record themselves on a CPU")


@pytest.mark.parametrize("where", ["building", "looking"])
def test_a_child_that_fails_is_a_note_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looked_at: Any, where: str
) -> None:
    def crash(*_: object, **__: object) -> Any:
        raise FuseworksError("child:user:crashed", signal="SIGSEGV")

    scene = bench(tmp_path)
    if where == "building":
        monkeypatch.setattr(scene.shop, "build_marked", crash)
    else:
        monkeypatch.setattr(winner_profile, "profiled", crash)
    profile_winner(scene, winner())
    (note,) = scene.answer.notes
    assert note == "winner was not profiled: The process running the model died of SIGSEGV."
    assert scene.answer.not_profiled_because == "The process running the model died of SIGSEGV."
    assert scene.answer.profile_after is None


# ---- a replay, whose baseline was not profiled ---------------------------------------------------------------------


def test_where_the_baseline_was_not_profiled_both_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looked_at: Any
) -> None:
    scene = bench(tmp_path)
    monkeypatch.setattr(winner_profile, "profile", lambda bench: looked_at.append(("baseline", None)))
    profile_both(scene, winner("onnxruntime"))
    assert looked_at == [("baseline", None), ("winner", None)]


def test_the_winner_comes_first_where_there_is_time_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looked_at: Any
) -> None:
    scene = bench(tmp_path, budget_s=1.5 * PROCESS_S)
    monkeypatch.setattr(winner_profile, "profile", lambda bench: looked_at.append(("baseline", None)))
    profile_both(scene, winner("onnxruntime"))
    assert looked_at == [("winner", None)]


# ---- what the child answers ----------------------------------------------------------------------------------------


class Child:
    """A loaded child; answers with `profile`."""

    def __init__(self, profile: object) -> None:
        self.profile, self.fields = profile, {}

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None: ...

    def path(self, name: str) -> str:
        return f"/in/{name}"

    def call(self, op: str, arrays: list[Any], **fields: Any) -> SimpleNamespace:
        self.fields = fields
        return SimpleNamespace(fields={"profile": self.profile})


def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: object) -> tuple[Profile, Child]:
    scene, child = bench(tmp_path), Child(answer)
    monkeypatch.setattr(prepare, "drawing", lambda bench, key: lambda: [])
    scene.roofs = {"bandwidth_bytes_per_s": 1e9}
    scene.shop = SimpleNamespace(
        build=lambda candidate: "built", load=lambda built, settings, name, marked: SimpleNamespace(child=child)
    )
    found = prepare.profiled(scene, winner(), timeout_s=5.0, marked=Path("marked"))
    assert any("most of it: linear 100%" in event.message for event in scene.events)
    return found, child


def test_a_profile_is_told_whose_it_is_and_the_child_what_to_look_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"op": "linear", "calls": 1, "self_ms": 2.0, "share": 1.0}
    found, child = asked(tmp_path, monkeypatch, {"operations": [row], "total_ms": 2.0})
    assert found.candidate == "winner"
    assert child.fields["marked"] == "/in/marked"
    assert child.fields["timeout_s"] == 5.0


@pytest.mark.parametrize(
    "answer", [None, {"total_ms": "fast"}, {"total_ms": 1.0, "verdict": "faster"}, {"total_ms": float("nan")}]
)
def test_an_answer_that_is_no_profile_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    with pytest.raises(FuseworksError) as caught:
        asked(tmp_path, monkeypatch, answer)
    assert caught.value.id == "child:user:bad-answer"


def test_the_deadline_of_a_run_is_the_profiles_too(tmp_path: Path, looked_at: Any) -> None:
    scene, began = bench(tmp_path, budget_s=60.0), time.monotonic()
    profile_winner(scene, winner())
    assert scene.shop.timeout_s <= 60.0 - (time.monotonic() - began) + 1.0
