"""Task metrics: by hand, and as a gate for lower precisions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optimizer.capturing.samples import Samples
from optimizer.errors import FuseworksError
from optimizer.spec import Workload
from optimizer.verifying.task_metric import (
    CannotScore,
    TaskJudge,
    accuracy,
    auc,
    normalised_entropy,
    reading,
    told,
)
from tests.optimizer.verifying.local import LocalChild


@pytest.mark.parametrize(
    ("labels", "scores", "value"),
    [
        ([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], 0.75),  # three of four pairs
        ([0, 1], [0.5, 0.5], 0.5),
        ([1, 0, 1, 0], [9, 1, 8, 2], 1.0),
        ([1, 0], [0.0, 1.0], 0.0),
        ([0, 1, 1], [0.2, 0.2, 0.3], 0.75),  # a tie counts half, a right pair whole
        ([0, 1], [0.1, float("nan")], 0.0),
    ],
)
def test_auc_is_the_share_of_pairs_that_are_ranked_rightly(labels: list, scores: list, value: float) -> None:
    assert auc(np.array(labels, float), np.array(scores, float)) == pytest.approx(value)


def test_normalised_entropy_is_one_for_the_mean_and_lower_for_what_knows_more() -> None:
    labels = np.array([1.0, 0.0, 0.0, 0.0])
    assert normalised_entropy(labels, np.full(4, 0.25)) == pytest.approx(1.0)
    # -(ln 0.5 + 3 ln 0.9) / 4 over -(0.25 ln 0.25 + 0.75 ln 0.75)
    assert normalised_entropy(labels, np.array([0.5, 0.1, 0.1, 0.1])) == pytest.approx(0.2523069 / 0.5623351, rel=1e-5)
    assert np.isfinite(normalised_entropy(labels, np.array([0.0, 0.0, 1.0, 0.0])))


def test_accuracy_is_the_share_of_right_classes() -> None:
    assert accuracy(np.array([0, 2, 1, 1]), np.array([0, 2, 0, 1])) == 0.75


@pytest.mark.parametrize("metric", [auc, normalised_entropy])
def test_labels_of_one_class_cannot_be_scored(metric: Any) -> None:
    with pytest.raises(CannotScore, match="all labels are of one class"):
        metric(np.ones(4), np.linspace(0, 1, 4))


def test_the_first_float_output_that_fits_is_read_as_logits_or_probabilities() -> None:
    labels = np.array([0.0, 1.0, 1.0])
    ids, wide = np.arange(3), np.zeros((3, 8), np.float32)
    found = reading("auc", labels, [ids, wide, np.array([[0.1], [0.9], [0.5]], np.float32)])
    assert (found.output, found.logits, found.classes) == (2, False, False)
    assert reading("auc", labels, [np.array([-3.0, 0.5, 0.2])]).logits
    assert reading("accuracy", labels, [wide]).classes
    with pytest.raises(CannotScore, match=r"fits labels of shape \[3\] \(outputs: \[3\], \[3, 8\]\)"):
        reading("auc", labels, [ids, wide])


def test_logits_become_probabilities_and_their_class_is_split_at_zero() -> None:
    labels, logits = np.array([1.0, 0.0]), np.array([2.0, -2.0])
    found = reading("normalised_entropy", labels, [logits])
    probability = 1 / (1 + np.exp(-2))
    assert found.score("normalised_entropy", labels, logits) == pytest.approx(-np.log(probability) / np.log(2))
    assert found.score("accuracy", labels, np.array([0.3, -0.2])) == 1.0
    shares = reading("accuracy", labels, [np.array([0.9, 0.2])])
    assert shares.score("accuracy", labels, np.array([0.3, 0.2])) == 0.5


# ---- the judge -------------------------------------------------------------------------------------------------------


def workload(**labels: Any) -> Workload:
    return Workload.model_validate(
        {
            "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 1]}],
            "dims": {"batch": {"serve": [4], "min": 1, "max": 8}},
            "samples": "samples.safetensors",
            "labels": {"label": "clicked", "metric": "auc", "max_drop": 0.01, **labels},
        }
    )


X = np.linspace(0.05, 0.95, 10, dtype=np.float32)[:, None]
CLICKED = np.array([0, 0, 0, 1, 0, 1, 1, 0, 1, 1], float)


class Contender:
    """`function` of the one input."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def stage(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        return arrays

    def call(self, native: list[np.ndarray]) -> np.ndarray:
        return np.asarray(self.function(native[0]))

    def outputs(self, native: np.ndarray) -> list[np.ndarray]:
        return [native]

    def inputs_after(self, native: list[np.ndarray]) -> list[np.ndarray]:
        return native


def child(function: Any) -> Any:
    return LocalChild(Contender(function))


def judge(**labels: Any) -> TaskJudge:
    of = workload(**labels)
    assert of.labels is not None
    made = TaskJudge(Samples(of, [X], True, [True], CLICKED), of.labels, ["score"], 60.0)
    made.prepare(child(lambda x: x[:, 0]))
    return made


def worse(x: np.ndarray) -> np.ndarray:
    """The two highest scores go to the end."""
    return np.where(x[:, 0] > 0.8, -x[:, 0], x[:, 0])


def test_every_sample_is_scored_once_though_the_last_set_begins_anew() -> None:
    found = judge().judge(child(lambda x: x[:, 0]), "int8")
    assert found.samples == 10
    assert found.baseline == found.candidate == pytest.approx(auc(CLICKED, X[:, 0])) == pytest.approx(21 / 25)
    assert (found.drop, found.passed, found.output) == (0.0, True, "score")


def test_a_drop_beyond_the_limit_refuses_a_lower_precision_and_is_told_of_float32() -> None:
    low, full = judge().judge(child(worse), "int8"), judge().judge(child(worse), "float32")
    assert low.candidate == full.candidate == pytest.approx(auc(CLICKED, worse(X)))
    assert low.drop == pytest.approx(low.baseline - low.candidate) and low.drop > 0.3
    assert (low.holds, low.passed, full.holds, full.passed) == (True, False, False, True)
    assert told(low).startswith("auc goes from 0.84000 to 0.44000 over 10 labels, worse by 4.0e-01")
    assert judge(max_drop=0.5).judge(child(worse), "bfloat16").passed


def test_of_normalised_entropy_more_is_worse() -> None:
    found = judge(metric="normalised_entropy").judge(child(worse), "bfloat16")
    assert found.candidate > found.baseline and found.drop > 0 and not found.passed


def test_whole_calls_have_their_own_labels() -> None:
    of = workload(metric="accuracy")
    assert of.labels is not None
    calls = np.stack([X[:4], X[4:8], X[2:6]])
    labels = np.array([[0, 0, 0, 0], [0, 1, 1, 1], [0, 0, 1, 1]], float)  # but for 0.45, whether x > 0.5
    made = TaskJudge(Samples(of, [calls], False, [True], labels), of.labels, ["score"], 60.0)
    made.prepare(child(lambda x: x))
    found = made.judge(child(lambda x: x), "int8")
    assert found.samples == 12
    assert found.baseline == pytest.approx(11 / 12)


def test_it_says_why_there_is_no_metric() -> None:
    of = workload()
    assert of.labels is not None
    with pytest.raises(CannotScore, match=r"samples\.safetensors holds no tensor 'clicked'"):
        TaskJudge(Samples(of, [X], True, [True]), of.labels, ["score"], 60.0).prepare(child(lambda x: x))
    promising = Workload.model_validate({**of.model_dump(by_alias=True), "contracts": [{"same_over_batch": ["x"]}]})
    rows = Samples(promising, [X], True, [True], CLICKED)
    with pytest.raises(CannotScore, match="made equal by the contracts"):
        TaskJudge(rows, of.labels, ["score"], 60.0).prepare(child(lambda x: x))


def test_an_answer_that_changes_its_shape_is_the_candidates_error() -> None:
    with pytest.raises(FuseworksError) as caught:
        judge().judge(child(lambda x: x[:2, 0]), "int8")
    assert caught.value.id == "child:user:bad-answer"
