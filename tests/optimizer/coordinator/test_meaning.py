"""A rewritten graph is asked in float64 once, however many engines run it, and fails them all where it departs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from optimizer.coordinator.evaluate import _meaning_judged
from optimizer.coordinator.workshop import Built, Plan
from optimizer.result import Candidate
from optimizer.spec import BackendStep
from optimizer.verifying.meaning import NAME
from optimizer.verifying.verify import Verifier
from tests.optimizer.verifying.local import LocalChild
from tests.planted.originals import EMBEDDED
from tests.planted.support import export, verifier_of, verify
from tests.planted.test_wrong_graphs import folded, larger_epsilon, rewritten

PLAN = Plan.of(Candidate(name="eager", steps=[BackendStep(backend="eager")]))


class Process(LocalChild):
    """The real operations, without a process."""

    def __init__(self, inputs: dict[str, Path]) -> None:
        super().__init__(None)
        self.inputs = inputs

    def path(self, name: str) -> str:
        return str(self.inputs[name])

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Scene:
    def __init__(self, captured: Path) -> None:
        self.started: list[str] = []
        context = SimpleNamespace(child=self.child)
        self.bench: Any = SimpleNamespace(captured=SimpleNamespace(model=captured, format="pt2"), context=context)
        shared = verifier_of("EMBEDDED")
        self.verifier = Verifier(shared.workload, shared.policy, shared.rng, shared.reference)
        self.verifier._truths = shared.truths

    def child(self, name: str, inputs: dict[str, Path]) -> Process:
        self.started.append(name)
        return Process(inputs)

    def judged(self, model: Path) -> Any:
        built = Built(PLAN, model, None, 0.0, 0, {})
        return _meaning_judged(self.bench, self.verifier, built, verify("EMBEDDED", EMBEDDED.module))


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(EMBEDDED, tmp_path_factory.mktemp("embedded") / "captured.pt2")


def test_a_graph_that_departs_in_float64_fails_what_float32_let_pass(captured: Path, tmp_path: Path) -> None:
    scene = Scene(captured)
    wrong = rewritten(captured, tmp_path / "wrong.pt2", larger_epsilon)
    for _ in range(2):
        found = scene.judged(wrong)
        assert not found.passed
        assert found.reason.startswith(
            f"{NAME}: in float64, where rounding hides nothing, it departs from the original"
        )
        assert [probe.name for probe in found.probes if not probe.passed] == [NAME]
    assert scene.started == ["meaning"], "the second engine is told what is known"


def test_a_graph_that_means_the_same_passes_with_one_more_probe(captured: Path, tmp_path: Path) -> None:
    found = Scene(captured).judged(rewritten(captured, tmp_path / "right.pt2", folded))
    assert found.passed and found.probes[-1].name == NAME and found.probes[-1].judged


def test_a_graph_without_a_float64_form_is_told_and_passes(captured: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.pt2").write_bytes(b"no graph")
    found = Scene(captured).judged(tmp_path / "broken.pt2")
    assert found.passed and not found.probes[-1].judged
    assert str(found.probes[-1].reason).startswith("not judged: ")


def test_the_original_itself_is_not_asked_again(captured: Path) -> None:
    scene = Scene(captured)
    assert NAME not in {probe.name for probe in scene.judged(captured).probes} and scene.started == []
