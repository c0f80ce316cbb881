"""Captured samples in verification: a pool of their own, judged by its own spread, beside the drawn inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from optimizer.capturing.samples import Samples
from optimizer.errors import FuseworksError
from optimizer.spec import Policy, Workload
from optimizer.verifying.reference import TorchReference
from optimizer.verifying.verify import Verifier
from tests.optimizer.verifying.local import LocalChild, TorchContender

WORKLOAD = Workload.model_validate(
    {
        "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}],
        "dims": {"batch": {"serve": [8], "min": 1, "max": 16}},
        "samples": "samples.safetensors",
    }
)
# drawn inputs are standard normal; what serving sees lies a thousand times nearer together, around 5
SEEN = (5.0 + 1e-3 * np.random.default_rng(1).standard_normal((40, 4))).astype(np.float32)


class Product(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.tensor([1.0, 2.0, 3.0, 4.0])


def off_near_five(x: torch.Tensor) -> torch.Tensor:
    """Wrong by 1e-4 where serving is and nowhere else: 0.04 of its spread there."""
    answer: torch.Tensor = Product()(x)
    return answer + 1e-4 * (x > 4.9)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> TorchReference:
    path = tmp_path_factory.mktemp("captured") / "model.pt2"
    batch = torch.export.Dim("batch", min=1, max=16)
    torch.export.save(torch.export.export(Product(), (torch.zeros(8, 4),), dynamic_shapes=({0: batch},)), path)
    return TorchReference(path)


def verifier(reference: Any, samples: Samples | None, baseline: Any = None) -> Verifier:
    made = Verifier(WORKLOAD, Policy(), np.random.default_rng(0), LocalChild(reference), samples=samples)  # type: ignore[arg-type]
    made.prepare(LocalChild(TorchContender(baseline or Product())))  # type: ignore[arg-type]
    return made


def samples(array: np.ndarray = SEEN) -> Samples:
    return Samples(WORKLOAD, [array], True, [True])


def child(function: Any) -> Any:
    return LocalChild(TorchContender(function))


def test_each_output_has_a_row_on_drawn_inputs_and_one_on_the_captured(reference: TorchReference) -> None:
    found = verifier(reference, samples()).verify(child(Product()))
    assert found.passed, found.reason
    assert [(row.output, row.inputs, row.passed) for row in found.outputs] == [
        ("output 0", "drawn", True),
        ("output 0", "captured", True),
    ]
    # 40 rows in sets of 8 need five sets
    assert found.outputs[1].samples == 40


def test_what_is_wrong_on_the_captured_samples_alone_is_found_by_their_own_spread(reference: TorchReference) -> None:
    assert verifier(reference, None).verify(child(off_near_five)).passed, "the drawn inputs never come there"
    found = verifier(reference, samples()).verify(child(off_near_five))
    assert not found.passed
    drawn, captured = found.outputs
    assert drawn.passed and not captured.passed
    # 1e-4 beside a spread of 1e-3 * sqrt((1 + 4 + 9 + 16) / 4) = 2.7e-3
    assert captured.error == pytest.approx(0.037, rel=0.15)
    assert str(found.reason).endswith("on the captured samples")


def test_an_answer_of_another_shape_on_the_captured_samples_is_named(reference: TorchReference) -> None:
    def shorter(x: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = Product()(x)
        return answer[:, :3] if bool((x > 4.9).all()) else answer

    found = verifier(reference, samples()).verify(child(shorter))
    assert not found.passed
    assert "captured 0: output 0 has shape [8, 3] where the original answers [8, 4]" in str(found.reason)


def test_an_original_that_fails_on_the_captured_samples_is_the_users_error_at_the_file(
    reference: TorchReference,
) -> None:
    def picky(x: torch.Tensor) -> torch.Tensor:
        if bool((x > 4.9).any()):
            raise ValueError("no such value")
        return Product()(x)  # type: ignore[no-any-return]

    with pytest.raises(FuseworksError) as caught:
        verifier(reference, samples(), picky)
    assert (caught.value.id, caught.value.place) == ("verifying:user:original-fails", "samples.safetensors")
    assert "no such value" in caught.value.message


def test_answers_to_timed_inputs_are_held_against_the_captured_spread_and_others_against_the_drawn(
    reference: TorchReference,
) -> None:
    made = verifier(reference, samples())
    true = [Product()(torch.from_numpy(SEEN[:8])).numpy()]
    off = [true[0] + np.float32(1e-5)]
    assert "is off by" in str(made.agreement("float32")(off, true))
    assert made.agreement("float32")(true, true) is None
    assert made.agreement("float32", timed=False)(off, true) is None


def test_few_samples_still_make_three_sets(reference: TorchReference, tmp_path: Path) -> None:
    found = verifier(reference, samples(SEEN[:5])).verify(child(Product()))
    assert found.passed and found.outputs[1].samples == 24


LABELLED = Workload.model_validate(
    {**WORKLOAD.model_dump(by_alias=True), "labels": {"label": "liked", "metric": "auc", "max_drop": 0.01}}
)
LIKED = (SEEN[:, 0] > 5.0).astype(float)


class Score(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, 0] * 1.0


def backwards_near_five(x: torch.Tensor) -> torch.Tensor:
    """Ranks what serving sees, and nothing else, the other way round."""
    return torch.where((x[:, 0] - 5.0).abs() < 0.01, 10.0 - x[:, 0], x[:, 0])


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> TorchReference:
    path = tmp_path_factory.mktemp("labelled") / "model.pt2"
    batch = torch.export.Dim("batch", min=1, max=16)
    torch.export.save(torch.export.export(Score(), (torch.zeros(8, 4),), dynamic_shapes=({0: batch},)), path)
    return TorchReference(path)


def labelled(scores: TorchReference, labels: np.ndarray | None = LIKED) -> Verifier:
    policy, rng = Policy(), np.random.default_rng(0)
    of = Samples(LABELLED, [SEEN], True, [True], labels)
    made = Verifier(LABELLED, policy, rng, LocalChild(scores), samples=of)  # type: ignore[arg-type]
    made.prepare(LocalChild(TorchContender(Score())))  # type: ignore[arg-type]
    return made


def test_the_task_metric_is_told_of_every_candidate(scores: TorchReference) -> None:
    found = labelled(scores).verify(child(Score()), "float32")
    assert found.passed and found.task_metric is not None
    assert (found.task_metric.baseline, found.task_metric.candidate, found.task_metric.samples) == (1.0, 1.0, 40)


def test_a_lower_precision_that_ranks_worse_is_refused_with_the_metric(scores: TorchReference) -> None:
    judge = labelled(scores)
    judge._captured = None  # else its error on the samples would refuse it as well
    found = judge.verify(child(backwards_near_five), "int8")
    assert not found.passed and found.task_metric is not None and not found.task_metric.passed
    assert found.reason is not None and found.reason.startswith("auc goes from 1.00000 to 0.00000 over 40 labels")


def test_without_labels_in_the_file_the_metric_is_left_out_with_the_reason(scores: TorchReference) -> None:
    judge = labelled(scores, None)
    assert judge.no_task_metric == "auc is not computed: samples.safetensors holds no tensor 'liked'."
    assert judge.verify(child(Score()), "int8").task_metric is None
