"""How long a capture may take, and how it is told when the model's own code does not come to an end."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from optimizer.coordinator import run
from optimizer.coordinator.capture import capture, capture_limit_s
from optimizer.errors import FuseworksError
from optimizer.spec import Policy, Purpose, RunSpec
from tests.optimizer.coordinator.support import context


@pytest.mark.parametrize(
    ("purpose", "budget_s", "size_bytes", "limit_s"),
    [
        (Purpose.OPTIMIZE, 480, 1000, 300),
        (Purpose.OPTIMIZE, 200, 1000, 200),
        (Purpose.OPTIMIZE, 1, 1000, 120),
        (Purpose.OPTIMIZE, 60, 2_000_000_000, 220),
        (Purpose.INSPECT, 120, 1000, 120),
        (Purpose.INSPECT, 60, 2_000_000_000, 160),
        (Purpose.INSPECT, 480, 1000, 300),
    ],
)
def test_the_limit_follows_the_budget_and_large_weights_have_their_time(
    tmp_path: Path, purpose: Purpose, budget_s: float, size_bytes: int, limit_s: float
) -> None:
    asked = context(tmp_path, budget_s=budget_s)
    asked.spec = asked.spec.model_copy(update={"purpose": purpose})
    assert capture_limit_s(asked, size_bytes) == limit_s


class Child:
    """Says one thing and fails."""

    def __init__(self, id_: str) -> None:
        self.id = id_

    def path(self, name: str) -> str:
        return name

    def call(self, op: str, *, timeout_s: float, on_progress: Any, **fields: Any) -> None:
        on_progress("Exporting the graph", {})
        raise FuseworksError(self.id, limit_s=timeout_s, doing=op)


def failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, id_: str) -> FuseworksError:
    upload = tmp_path / "model.py"
    upload.write_text("class Model: ...")

    @contextmanager
    def child(*_: Any, **__: Any) -> Any:
        yield Child(id_)

    asked = context(tmp_path, budget_s=90)
    monkeypatch.setattr(asked, "child", child)
    with pytest.raises(FuseworksError) as caught:
        capture(asked, upload, None)
    return caught.value


def test_a_capture_that_does_not_end_says_its_limit_and_its_last_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = failure(tmp_path, monkeypatch, "child:user:timed-out")
    assert error.id == "run:user:capture-too-slow"
    assert error.message == "Capturing the model did not end within 120 s. The last step was: Exporting the graph."


def test_any_other_failure_stays_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert failure(tmp_path, monkeypatch, "child:user:crashed").id == "child:user:crashed"


def test_an_inspection_of_a_model_that_loops_ends_as_failed_within_its_budget(tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text("while True:\n    pass\n")
    spec = RunSpec(purpose=Purpose.INSPECT, model=str(model), out=str(tmp_path / "out"), policy=Policy(budget_s=6))
    result = run.execute(spec, lambda event: None)
    assert result.problem is not None
    assert (result.status, result.problem.id) == ("failed", "run:user:capture-too-slow")
    assert "did not end within 6 s" in result.problem.message
    assert result.elapsed_s < 30
