"""What can be captured as a training step, and what is refused at which line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from optimizer.compiling.step.runtime import design_of
from optimizer.errors import FuseworksError
from optimizer.spec import Mode
from tests.optimizer.capturing.uploads import capture, line_of, module
from tests.optimizer.compiling.step.steps import BATCH, LOSS, captured, contender, ranker, workload

LINEAR = """
def __init__(self):
    super().__init__()
    self.head = nn.Linear(8, 1)

def forward(self, x):
    return self.head(x).squeeze(1)
"""
INPUTS = f"[torch.randn({BATCH}, 8)]"


def asked(**more: Any) -> dict[str, Any]:
    return {
        "mode": "training",
        "loss": "loss",
        "optimizer": {"name": "sgd", "lr": 0.1},
        "inputs": [
            {"name": "x", "dtype": "float32", "shape": [BATCH, 8]},
            {"name": "click", "dtype": "float32", "shape": [BATCH]},
        ],
        **more,
    }


def refused(folder: Path, *, body: str = LINEAR, extra: str = LOSS, **more: Any) -> FuseworksError:
    path = module(folder, body, inputs=INPUTS, extra=extra)
    with pytest.raises(FuseworksError) as caught:
        capture(path, folder / "scratch", workload=asked(**more))
    return caught.value


def test_a_step_is_captured_with_its_targets_behind_the_inputs(tmp_path: Path) -> None:
    answer = captured(tmp_path, "adagrad")
    assert answer.workload.mode is Mode.TRAINING
    assert [spec.name for spec in answer.workload.inputs] == ["item", "seen", "user", "click"]
    assert [output["name"] for output in answer.inspection["outputs"]] == ["loss"]
    design = design_of(answer.files["captured.step"])
    assert design["inputs"] == 3 and design["optimizer"] == {"name": "adagrad", "lr": 0.1}
    assert design["parameters"] == [
        "model.items.weight", "model.users.weight", "model.head.weight", "model.head.bias",
    ]  # fmt: skip
    assert "weights.safetensors" in answer.files and "captured.pt2" not in answer.files


def test_a_dimension_that_varies_is_captured_at_the_first_size_that_it_serves(tmp_path: Path) -> None:
    document = workload(dims={"batch": {"serve": [6, 4], "min": 1, "max": 64}})
    for spec in document["inputs"]:
        spec["shape"][0] = "batch"
    answer = capture(ranker(tmp_path), tmp_path / "scratch", workload=document)
    assert [spec.shape for spec in answer.workload.inputs] == [[6], [6, 3], [6], [6]]
    assert answer.workload.dims == {}
    assert "The step is of one size: batch = 6" in answer.inspection["notes"]


def test_dropout_is_switched_off_and_the_inspection_says_so(tmp_path: Path) -> None:
    body = LINEAR.replace("self.head(x)", "self.head(nn.functional.relu(self.drop(x)))")
    body = body.replace("self.head = ", "self.drop = nn.Dropout(0.5)\n    self.head = ")
    answer = capture(module(tmp_path, body, inputs=INPUTS, extra=LOSS), tmp_path / "scratch", workload=asked())
    assert any(note.startswith("Dropout is switched off") for note in answer.inspection["notes"])
    one = contender(answer.files["captured.step"], answer.workload)
    staged = [torch.ones(BATCH, 8), torch.ones(BATCH)]
    losses = []
    for _ in range(2):
        one.reset()
        losses.append(float(one.call(staged)))
    assert losses[0] == losses[1]


def test_a_shared_parameter_stays_one_after_saving_and_loading(tmp_path: Path) -> None:
    body = LINEAR.replace("self.head = ", "self.first = nn.Linear(8, 8)\n    self.second = nn.Linear(8, 8)\n    ")
    body = body.replace("nn.Linear(8, 1)", "self.second.weight = self.first.weight", 1)
    body = body.replace("self.head(x).squeeze(1)", "self.second(self.first(x)).sum(1)")
    answer = capture(module(tmp_path, body, inputs=INPUTS, extra=LOSS), tmp_path / "scratch", workload=asked())
    design = design_of(answer.files["captured.step"])
    assert design["ties"] == [["model.first.weight", "model.second.weight"]]
    step = contender(answer.files["captured.step"], answer.workload).step
    assert list(step.parameters) == ["model.first.weight", "model.first.bias", "model.second.bias"]
    step(torch.ones(BATCH, 8), torch.ones(BATCH))
    assert step.parameters["model.first.weight"].grad is not None


def test_a_norm_that_keeps_statistics_is_part_of_the_state_and_is_put_back(tmp_path: Path) -> None:
    body = LINEAR.replace("self.head(x)", "self.head(self.norm(x))")
    body = body.replace("self.head = ", "self.norm = nn.BatchNorm1d(8)\n    self.head = ")
    answer = capture(module(tmp_path, body, inputs=INPUTS, extra=LOSS), tmp_path / "scratch", workload=asked())
    one = contender(answer.files["captured.step"], answer.workload)
    assert set(one.step.design["buffers"]) == {
        "model.norm.running_mean", "model.norm.running_var", "model.norm.num_batches_tracked",
    }  # fmt: skip
    assert int(one.step.buffers["model.norm.num_batches_tracked"]) == 0
    one.call([torch.full((BATCH, 8), 2.0) + torch.arange(BATCH)[:, None], torch.ones(BATCH)])
    # a tenth of the batch's mean, which is 2 + 3.5
    assert one.step.buffers["model.norm.running_mean"].tolist() == pytest.approx([0.55] * 8)
    one.reset()
    assert not one.step.buffers["model.norm.running_mean"].any()


@pytest.mark.parametrize(("missing", "words"), [("loss", "no loss"), ("optimizer", "no optimizer")])
def test_a_workload_that_says_only_half_of_a_step_is_refused(tmp_path: Path, missing: str, words: str) -> None:
    more: dict[str, Any] = {missing: None}
    error = refused(tmp_path, **more)
    assert error.id == "capturing:user:training-incomplete" and words in error.message
    assert "adagrad" in error.remedy


@pytest.mark.parametrize(
    ("extra", "what"),
    [
        ("", "is not defined in the module"),
        ("loss = 3\n", "is of type int, not a function"),
        ("def loss():\n    return 0\n", "takes nothing, and the model's output is what it must take"),
    ],
)
def test_a_loss_that_is_none_is_refused(tmp_path: Path, extra: str, what: str) -> None:
    error = refused(tmp_path, extra=extra)
    assert error.id == "capturing:user:loss-signature" and what in error.message


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("return (logits - click) ** 2", f"a tensor of float32 and shape [{BATCH}]"),
        ("return float((logits - click).sum())", "a float"),
        ("return (click ** 2).sum()", "without a gradient"),
        ("return (logits / 0).sum()", "not finite at the module's own samples"),
    ],
)
def test_a_loss_that_cannot_be_trained_with_is_refused_at_its_line(tmp_path: Path, body: str, what: str) -> None:
    extra = LOSS.replace(LOSS.split("\n")[2].strip(), body)
    error = refused(tmp_path, extra=extra)
    assert error.id == "capturing:user:bad-loss" and what in error.message
    assert error.place == f"model.py:{line_of(tmp_path / 'model.py', 'def loss')}"


def test_a_loss_that_raises_is_told_with_its_line(tmp_path: Path) -> None:
    error = refused(tmp_path, extra=LOSS.replace("logits, click)\n\n", "logits, click[:3])\n\n"))
    assert error.id == "capturing:user:loss-failed"
    assert error.place == f"model.py:{line_of(tmp_path / 'model.py', 'binary_cross_entropy')}"


def test_targets_that_are_not_given_are_asked_for(tmp_path: Path) -> None:
    error = refused(tmp_path, extra=LOSS.partition("def get_targets")[0])
    assert error.id == "capturing:user:missing-name" and "get_targets" in error.message


def test_a_step_that_draws_random_numbers_is_refused_at_its_line(tmp_path: Path) -> None:
    error = refused(tmp_path, body=LINEAR.replace("self.head(x)", "self.head(x + torch.randn_like(x))"))
    assert error.id == "capturing:user:random-step" and "randn_like" in error.message
    assert error.place == f"model.py:{line_of(tmp_path / 'model.py', 'randn_like')}"


def test_an_exported_graph_cannot_be_trained_and_the_way_is_told(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(torch.nn.Linear(8, 1), (torch.ones(BATCH, 8),)), path)
    with pytest.raises(FuseworksError) as caught:
        capture(path, tmp_path / "scratch", workload=asked())
    assert caught.value.id == "capturing:user:training-workload"
    assert "a .pt2 holds no loss" in caught.value.message and "Upload the module itself" in caught.value.remedy


def test_loss_and_optimizer_mean_nothing_without_the_mode(tmp_path: Path) -> None:
    error = refused(tmp_path, mode="inference")
    assert error.id == "capturing:user:bad-workload" and "loss and optimizer are for mode training" in error.message
