"""A graph that relies on a promise is built together with the engine by itself, and never goes without it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from optimizer.coordinator.workshop import Built, Plan, Rewritten, Workshop
from optimizer.result import Candidate
from tests.optimizer.coordinator.support import context

FAST = Candidate.model_validate(
    {"name": "fast", "steps": [{"pass": "deduplicate_rows"}, {"precision": "bfloat16"}, {"backend": "openvino"}]}
)
BARE = Candidate.model_validate({"name": "bare", "steps": [{"precision": "bfloat16"}, {"backend": "openvino"}]})


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """Builds files that say by what model they were made; `built` counts them."""
    captured, rewritten = tmp_path / "captured.pt2", tmp_path / "rewritten.pt2"
    made = Workshop(context(tmp_path), SimpleNamespace(model=captured, format="pt2"))  # type: ignore[arg-type]
    made.built = []  # type: ignore[attr-defined]

    def rewrite(self: Workshop, passes: Any, **_: Any) -> Rewritten:
        return Rewritten(rewritten, [], ("user", "history")) if passes else Rewritten(captured, [])

    def build_one(self: Workshop, plan: Plan, model: Path) -> Built:
        made.built.append(model.name)  # type: ignore[attr-defined]
        folder = self.context.folder("built")
        (folder / "model.xml").write_text(model.name)
        return Built(plan, model, folder, 1.0, 1, {"entry": "model.xml", "by": model.name})

    monkeypatch.setattr(Workshop, "rewrite", rewrite)
    monkeypatch.setattr(Workshop, "_build_one", build_one)
    return made


def test_the_engine_by_itself_lies_beside_what_relies_on_the_promise(shop: Workshop) -> None:
    built = shop.build(FAST)
    assert built.promised == ("user", "history") and built.folder is not None
    assert {path.name: path.read_text() for path in built.folder.iterdir()} == {
        "model.xml": "rewritten.pt2",
        "otherwise-model.xml": "captured.pt2",
    }
    assert built.artifact_bytes == len("rewritten.pt2") + len("captured.pt2")
    assert built.details["promised"] == ["user", "history"]
    assert built.details["by"] == "rewritten.pt2" and built.details["otherwise"]["by"] == "captured.pt2"


def test_a_peer_that_was_built_already_is_not_built_again(shop: Workshop) -> None:
    shop.build(BARE)
    shop.build(FAST)
    assert shop.built == ["captured.pt2", "rewritten.pt2"]  # type: ignore[attr-defined]
    assert shop.build(BARE).promised == ()
