"""A training step's profile: forward, backward and optimizer apart, and backward told by the lines of forward."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from optimizer.children.session import Session
from optimizer.compiling.base import BACKENDS, Context
from optimizer.compiling.child import Loading
from optimizer.compiling.step.contender import StepContender
from optimizer.compiling.step.runtime import Step, design_of, load_graph
from optimizer.profiling import child
from optimizer.profiling.document import Operation, Profile
from optimizer.spec import Workload
from tests.optimizer.capturing.uploads import capture, line_of, module
from tests.optimizer.compiling.step.steps import captured, rewritten

BATCH, WIDTH, HIDDEN = 8, 16, 123
MODEL = f"""
def __init__(self):
    super().__init__()
    self.first, self.last = nn.Linear({WIDTH}, {HIDDEN}), nn.Linear({HIDDEN}, 1)

def forward(self, x):
    hidden = torch.relu(self.first(x))
    return self.last(hidden).squeeze(1)
"""
LOSS = f"""
def loss(answer, wanted):
    return nn.functional.mse_loss(answer, wanted)

def get_targets():
    return [torch.ones({BATCH})]
"""
WORKLOAD = {
    "mode": "training",
    "loss": "loss",
    "optimizer": {"name": "adam", "lr": 0.01},
    "inputs": [
        {"name": "x", "dtype": "float32", "shape": [BATCH, WIDTH]},
        {"name": "wanted", "dtype": "float32", "shape": [BATCH]},
    ],
}
PARAMETERS = WIDTH * HIDDEN + HIDDEN + HIDDEN + 1


def profiled(folder: Path, path: Path, workload: Workload, arrays: list[np.ndarray]) -> Profile:
    torch.set_grad_enabled(True)
    context = Context(workload, 1, "cpu", folder, "step", path)
    contender = StepContender(Step(load_graph(path), design_of(path)), workload)
    loaded = Loading(BACKENDS.get("eager_step"), None, None, context)
    session = Session(fd=-1, scratch=folder, state={"contender": contender, "loaded": loaded})
    answer, _ = child.profile(session, {"calls": 3}, arrays)
    return Profile.model_validate(answer["profile"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("step")


@pytest.fixture(scope="module")
def found(folder: Path) -> Profile:
    path = module(folder, MODEL, inputs=f"[torch.randn({BATCH}, {WIDTH})]", extra=LOSS)
    answer = capture(path, folder / "scratch", workload=WORKLOAD)
    arrays: list[Any] = [np.ones((BATCH, WIDTH), np.float32), np.ones(BATCH, np.float32)]
    return profiled(folder, answer.files["captured.step"], answer.workload, arrays)


def rows(profile: Profile, phase: str) -> dict[str, list[Operation]]:
    ops: dict[str, list[Operation]] = {}
    for row in profile.operations:
        if row.phase == phase:
            ops.setdefault(row.op, []).append(row)
    return ops


def test_the_parts_of_a_step_are_the_whole_step(found: Profile) -> None:
    assert [phase.name for phase in found.phases] == ["forward", "backward", "optimizer"]
    assert all(phase.ms > 0 for phase in found.phases)
    assert sum(phase.share for phase in found.phases) == pytest.approx(1)
    assert sum(phase.ms for phase in found.phases) == pytest.approx(found.profiled_ms, rel=0.3)


def test_every_operation_belongs_to_one_part(found: Profile) -> None:
    assert all(row.phase is not None for row in found.operations if not row.op.startswith("("))
    assert set(rows(found, "forward")) >= {"linear", "relu", "squeeze", "mse_loss"}
    assert "AccumulateGrad" in rows(found, "backward")
    assert not any(row.op.endswith("Backward0") for row in found.operations if row.phase != "backward")
    assert rows(found, "optimizer"), "adam's own operations"
    assert sum(row.share for row in found.operations) == pytest.approx(1)


def test_backward_is_told_by_the_module_and_line_of_the_forward_operation(folder: Path, found: Profile) -> None:
    line = f"model.py:{line_of(folder / 'model.py', 'torch.relu')}"
    (relu,) = rows(found, "backward")["ReluBackward0"]
    assert relu.source == line
    modules = {row.module for row in rows(found, "backward")["AddmmBackward0"]}
    forward = {row.module for row in rows(found, "forward")["linear"]}
    assert modules == forward and all(name and name.endswith(("first", "last")) for name in modules)


def test_forward_operations_tell_what_they_compute(found: Profile) -> None:
    flops = sorted(row.flops for row in rows(found, "forward")["linear"] if row.flops)
    assert flops == [2 * BATCH * HIDDEN, 2 * BATCH * WIDTH * HIDDEN]
    assert all(row.flops is None for row in found.operations if row.phase != "forward"), "not told of backward"


def test_weights_and_adams_moments_are_resident_and_gradients_are_the_calls_own(found: Profile) -> None:
    memory = found.memory
    assert memory is not None and memory.overhead is not None
    inputs = BATCH * WIDTH + BATCH
    assert memory.resident_bytes == 4 * (3 * PARAMETERS + inputs)
    assert memory.peak_bytes >= 4 * PARAMETERS, "all gradients are alive before the update"
    assert [span.name for span in memory.phases] == ["optimizer", "forward", "backward", "optimizer"]
    assert memory.phases[-1].to_ms == pytest.approx(memory.profiled_ms)
    gradient = max(memory.owners, key=lambda owner: owner.bytes)
    assert (gradient.op, gradient.phase) == ("AddmmBackward0", "backward")
    assert gradient.bytes >= 4 * WIDTH * HIDDEN


def test_what_profiling_took_is_told(found: Profile) -> None:
    assert found.took_s is not None and found.took_s > 0
    assert found.overhead is not None


@pytest.mark.parametrize("with_passes", [False, True])
def test_a_step_whose_tables_are_updated_by_rows_is_profiled_too(tmp_path: Path, with_passes: bool) -> None:
    answer = captured(tmp_path, "adagrad")
    path = answer.files["captured.step"]
    ids = [np.zeros(spec.shape, np.int64) for spec in answer.workload.inputs[:3]]
    arrays = [*ids, np.ones(answer.workload.inputs[3].shape, np.float32)]
    profile = profiled(tmp_path, rewritten(path) if with_passes else path, answer.workload, arrays)
    assert ("embedding" in rows(profile, "forward")) != with_passes, "rows are looked up before forward"
    assert rows(profile, "optimizer") and rows(profile, "backward")
