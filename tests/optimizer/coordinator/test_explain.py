"""`explain` refuses what it cannot predict before it begins, and says what would do; what it tells of two graphs."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer import devices
from optimizer.coordinator import explain
from optimizer.coordinator.explain import difference, is_absent, summary
from optimizer.coordinator.run import execute
from optimizer.predicting.document import Lowering, Prediction
from optimizer.predicting.formula import formula
from optimizer.result import Result, RunStatus
from optimizer.spec import Purpose, RunSpec

MODEL = "import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n"


def explained(tmp_path: Path, target: str) -> Result:
    model = tmp_path / "model.py"
    model.write_text(MODEL)
    return execute(RunSpec(purpose=Purpose.EXPLAIN, model=str(model), target=target, out=str(tmp_path)), lambda _: None)


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("cuda:sm_75", "there is no figure of a device for 'cuda:sm_75'"),
        ("cpu", "there is no figure of a device for 'cpu'"),
        ("rocm:gfx942", "Inductor is made to lower for CUDA only"),
    ],
)
def test_it_names_the_targets_that_can_be_predicted_for(tmp_path, target, text):
    result = explained(tmp_path, target)
    assert result.status == RunStatus.FAILED
    assert result.problem is not None and result.problem.id == "predicting:user:unknown-target"
    assert text in result.problem.message
    assert result.problem.remedy == "Choose one of cuda:sm_80, cuda:sm_90, cuda:sm_100."


@pytest.mark.parametrize(
    ("target", "here", "absent"),
    [("cuda:sm_90", False, True), ("cuda:sm_90", True, False), ("cuda:sm_75", False, False), ("cpu", False, False)],
)
def test_a_run_predicts_only_for_a_known_gpu_that_is_not_here(monkeypatch, target, here, absent):
    monkeypatch.setattr(devices, "why_none", lambda: None if here else "this machine has no NVIDIA GPU: take another")
    assert is_absent(target) is absent


def test_an_optimize_run_for_a_gpu_that_is_not_here_says_that_its_figures_are_predicted(tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "why_none", lambda: "this machine has no NVIDIA GPU: take another")
    asked = []
    monkeypatch.setattr(explain, "explain", lambda context, answer: asked.append(context.target))
    spec = RunSpec(model=str(tmp_path / "model.py"), target="cuda:sm_90", out=str(tmp_path))
    result = execute(spec, lambda _: None)
    assert asked == ["cuda:sm_90"]
    assert result.notes == ["No GPU is here: nothing is measured for cuda:sm_90, all figures are predicted."]
    assert result.verdict is None and not result.offered


def lowering(launched: int, moved: int, ends: tuple[float, float]) -> Lowering:
    return Lowering(
        kernels=[],
        extern_calls=[],
        kernels_launched=launched,
        bytes_moved=moved,
        predicted_ms=ends,
        lowering_s=1.0,
        compiling_s=1.0,
    )


def test_the_difference_is_what_the_rewrites_take_away():
    found = difference(lowering(40, 1000, (0.2, 0.5)), lowering(15, 1200, (0.25, 0.125)))
    assert found.kernels_launched == -25 and found.bytes_moved == 200
    assert found.predicted_ms == pytest.approx((0.05, -0.375))


def test_the_summary_calls_it_predicted_and_names_the_device():
    before, after = lowering(40, 1000, (0.2, 0.5)), lowering(15, 1200, (0.25, 0.125))
    told = Prediction(
        target="cuda:sm_90",
        device="NVIDIA H100",
        device_sources=[],
        sizes={},
        before=before,
        after=after,
        applied=["merge"],
        difference=difference(before, after),
        formula=formula(),
    )
    assert summary(told) == (
        "Predicted for NVIDIA H100: 0.25 to 0.125 ms a call, 15 kernels launched; "
        "without our rewrites 0.2 to 0.5 ms and 40"
    )
    unchanged = told.model_copy(update={"applied": [], "after": before})
    assert summary(unchanged).endswith("40 kernels launched; no rewrite of ours fits this graph")
