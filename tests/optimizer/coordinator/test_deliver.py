"""A package is offered only after its own self-test has passed inside the sandbox."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from optimizer.coordinator import deliver
from optimizer.coordinator.answer import Answer
from optimizer.coordinator.workshop import Plan
from optimizer.result import Artifact, Candidate, Event
from optimizer.spec import BackendStep, Mode, PassStep, PrecisionStep
from tests.optimizer.coordinator.support import context
from tests.optimizer.packaging.conftest import edit_manifest, write

LISTED = [Artifact(name="package", path="package.zip", size_bytes=1, sha256="0" * 64)]


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    events: list[Event] = []
    made = context(tmp_path, events)
    workload = SimpleNamespace(mode=Mode.INFERENCE)
    yield SimpleNamespace(context=made, answer=Answer(), events=events, workload=workload)
    made.end_children(None)


def packaged(bench: Any, monkeypatch: pytest.MonkeyPatch, spoil: Any = lambda package: None) -> list[Artifact]:
    """`deliver.package` of a tiny ONNX model, spoiled after it was written."""

    def written(*_: object) -> list[Artifact]:
        spoil(write(bench.context.out))
        return LISTED

    monkeypatch.setattr(deliver, "_written", written)
    return deliver.package(bench, SimpleNamespace(name="winner"))  # type: ignore[arg-type]


def test_a_package_that_passes_its_self_test_is_listed(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert packaged(bench, monkeypatch) == LISTED
    assert (bench.context.out / "package" / "run.py").exists()
    assert bench.answer.notes == []
    assert bench.context.sandbox in {"bubblewrap", "landlock"}, "the user's model was compiled into it"
    assert any("self-test" in event.message for event in bench.events)


def test_a_torch_package_passes_in_the_sandbox_too(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from tests.optimizer.packaging import test_torch_packages as torch_packages

    def written(*_: object) -> list[Artifact]:
        model = torch_packages.Tiny().eval()
        artifact = bench.context.folder("artifact")
        torch.export.save(torch_packages.exported(model), artifact / "model.pt2")
        torch_packages.write(bench.context.out, "eager", artifact, model, {"entry": "model.pt2"})
        return LISTED

    monkeypatch.setattr(deliver, "_written", written)
    assert deliver.package(bench, SimpleNamespace(name="winner")) == LISTED, bench.answer.notes  # type: ignore[arg-type]


def test_a_package_that_computes_something_else_is_withheld_with_the_reason(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_answers(package: Path) -> None:
        edit_manifest(package, lambda manifest: manifest["check"].update(allowed_errors=[-1.0]))

    assert packaged(bench, monkeypatch, other_answers) == []
    assert not (bench.context.out / "package").exists()
    assert not (bench.context.out / "package.zip").exists()
    (note,) = bench.answer.notes
    assert note.startswith("The package was withheld: its own self-test failed: refused: output y is off by")


def test_a_package_of_which_a_file_is_missing_is_withheld(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert packaged(bench, monkeypatch, lambda package: (package / "model.onnx").unlink()) == []
    assert "model.onnx is missing" in bench.answer.notes[0]


def test_a_self_test_whose_child_fails_withholds_the_package_too(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_child(self: Any, name: str, given: Any, **options: Any) -> Any:
        from optimizer.errors import FuseworksError

        raise FuseworksError("child:user:crashed", signal="SIGKILL")

    monkeypatch.setattr(type(bench.context), "child", no_child)
    assert packaged(bench, monkeypatch) == []
    assert bench.answer.notes == [
        "The package was withheld: its own self-test failed: The process running the model died of SIGKILL."
    ]
    shutil.rmtree(bench.context.out)


def test_a_recipe_is_named_by_what_it_does_and_not_by_what_its_winner_leaves_out() -> None:
    steps = [PassStep(pass_="hoist_constants"), PassStep(pass_="split_target_attention"), PassStep(pass_="idle")]
    winner = Candidate(
        name="aot_inductor + rewrites - merge_embedding_tables", steps=[*steps, BackendStep(backend="aot_inductor")]
    )
    name = deliver.recipe_name(Plan.of(winner), ["hoist_constants", "split_target_attention"])
    assert name == "aot_inductor split_target_attention"
    bare = Candidate(name="x", steps=[PrecisionStep(precision="bfloat16"), BackendStep(backend="openvino")])
    assert deliver.recipe_name(Plan.of(bare), []) == "openvino bfloat16"
