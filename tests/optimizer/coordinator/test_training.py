"""Where a run of a training step goes other ways than one of inference: planner, verifier, package."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from optimizer.coordinator import deliver, peers, prepare, training_package
from optimizer.coordinator.answer import Answer
from optimizer.coordinator.capture import Captured
from optimizer.inputs import draw
from optimizer.optimizing.training_planner import TrainingPlanner
from optimizer.result import Candidate, Event
from optimizer.spec import BackendStep, PassStep, RuntimeSettings
from optimizer.verifying.training.verify import TrainingVerifier
from tests.optimizer.capturing.uploads import Answer as CaptureAnswer
from tests.optimizer.compiling.step.steps import captured, contender, rewritten
from tests.optimizer.coordinator.support import context
from tests.optimizer.verifying.local import LocalChild

WINNER = Candidate(
    name="eager_step + rewrites",
    steps=[
        PassStep(pass_="update_embedding_rows"),
        PassStep(pass_="fuse_optimizer"),
        BackendStep(backend="eager_step"),
    ],
)


@pytest.fixture
def answer(tmp_path: Path) -> CaptureAnswer:
    return captured(tmp_path, "adagrad")


@pytest.fixture
def bench(tmp_path: Path, answer: CaptureAnswer) -> Any:
    events: list[Event] = []
    made = context(tmp_path, events, threads=1)
    step = rewritten(answer.files["captured.step"])
    child = LocalChild(contender(step, answer.workload))
    found = SimpleNamespace(
        upload=tmp_path / "model.py",
        upload_format="py",
        format="step",
        workload=answer.workload,
        samples=None,
        baseline_backend="eager_step",
        inspection=SimpleNamespace(sha256="0" * 64, outputs=[]),
    )

    class Loaded:
        def __enter__(self) -> LocalChild:
            return child

        def __exit__(self, *_: object) -> None: ...

    shop = SimpleNamespace(
        build=lambda candidate: SimpleNamespace(model=step, folder=None),
        load=lambda built, settings, name: SimpleNamespace(child=Loaded()),
    )
    bench = SimpleNamespace(
        context=made, captured=found, workload=answer.workload, shop=shop, answer=Answer(), events=events
    )
    yield bench
    made.end_children(None)


def test_the_baseline_of_a_step_is_the_step_as_pytorch_runs_it() -> None:
    one = Captured.__new__(Captured)
    object.__setattr__(one, "format", "step")
    assert one.baseline_backend == "eager_step"


def test_a_step_has_a_planner_and_a_verifier_of_its_own(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "ready_toolchain", lambda context: None)
    planner = peers.planner_of(bench, RuntimeSettings())
    assert isinstance(planner, TrainingPlanner)
    assert set(planner.facts.backends) == {"eager_step", "inductor_step"}
    assert isinstance(prepare._verifier(bench, LocalChild(None)), TrainingVerifier)  # type: ignore[arg-type]


def test_the_package_of_a_step_trains_as_it_was_measured(bench: Any) -> None:
    artifacts = deliver.package(bench, WINNER)
    assert [one.name for one in artifacts] == ["package"] and bench.answer.notes == []
    folder = bench.context.out / "package"
    told = json.loads((folder / "manifest.json").read_text())
    assert (told["compiled"], told["compiled_optimizer"]) == (False, False)
    rng = bench.context.rng(14)
    batches = [draw(bench.workload, {}, rng) for _ in range(training_package.CHECKED_STEPS)]
    with np.load(folder / "check.npz") as saved:
        assert all(np.array_equal(saved[f"batch_{n}_0"], batch[0]) for n, batch in enumerate(batches))
        assert len(saved["losses"]) == training_package.CHECKED_STEPS


def test_a_package_that_trains_otherwise_is_withheld(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_package, "ALLOWED_ERROR", -1.0)
    assert deliver.package(bench, WINNER) == []
    (note,) = bench.answer.notes
    assert note.startswith("The package was withheld: its own self-test failed: step 1: loss ")
    assert not (bench.context.out / "package").exists()
