"""Task metrics over labelled samples: area under the ROC curve, normalised entropy, accuracy. numpy and scipy only.

The original and each candidate answer the same samples. In a lower precision a drop beyond the workload's `max_drop`
refuses the candidate; in float32, where rounding alone decides between ties, it is told. Not computed, with the reason,
where no output fits the labels, and where a contract makes rows of the batch equal that had labels of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from optimizer.capturing.samples import Samples
from optimizer.errors import FuseworksError
from optimizer.result import TaskMetric
from optimizer.sandbox import Child
from optimizer.spec import Labels, Precision
from optimizer.verifying.asking import ask

MOST_SECONDS = 20.0  # for the original; candidates are asked what it was asked
SETS_AT_A_TIME = 16
LEAST_PROBABILITY = 1e-7


class CannotScore(ValueError):
    """Why there is no metric, as a sentence without its subject."""


# ---- the metrics -----------------------------------------------------------------------------------------------------


def auc(labels: np.ndarray, scores: np.ndarray) -> float:
    """The share of pairs, one of each class, that are ranked rightly; a tie counts half."""
    positive = labels > 0.5
    ones, zeros = int(positive.sum()), int((~positive).sum())
    if not ones or not zeros:
        raise CannotScore("all labels are of one class")
    if not np.isfinite(scores).all():
        return 0.0
    return float((rankdata(scores)[positive].sum() - ones * (ones + 1) / 2) / (ones * zeros))


def normalised_entropy(labels: np.ndarray, probabilities: np.ndarray) -> float:
    """The mean log loss over that of always answering the labels' mean; lower is better."""
    rate = float(labels.mean())
    if not 0 < rate < 1:
        raise CannotScore("all labels are of one class")
    if not np.isfinite(probabilities).all():
        return float(np.finfo(np.float64).max)
    given = np.clip(probabilities.astype(np.float64), LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    loss = -np.mean(labels * np.log(given) + (1 - labels) * np.log(1 - given))
    return float(loss / -(rate * np.log(rate) + (1 - rate) * np.log(1 - rate)))


def accuracy(labels: np.ndarray, classes: np.ndarray) -> float:
    return float(np.mean(classes == labels))


# ---- from answers to a metric ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """How an output is read, decided once by the original's answers: `logits`, or probabilities; or one score for each
    of several `classes` in the last dimension."""

    output: int
    logits: bool
    classes: bool

    def score(self, metric: str, labels: np.ndarray, answers: np.ndarray) -> float:
        if self.classes:
            return accuracy(labels, answers.argmax(-1).reshape(labels.shape))
        values = answers.reshape(labels.shape).astype(np.float64)
        if metric == "auc":
            return auc(labels.ravel(), values.ravel())
        if metric == "accuracy":
            return accuracy(labels > 0.5, values > (0.0 if self.logits else 0.5))
        return normalised_entropy(labels.ravel(), (_sigmoid(values) if self.logits else values).ravel())


def reading(metric: str, labels: np.ndarray, outputs: Sequence[np.ndarray]) -> Reading:
    """The first float output that fits. Raises CannotScore."""
    for place, answers in enumerate(outputs):
        if answers.dtype.kind != "f":
            continue
        wide = answers.ndim == labels.ndim + 1 and answers.shape[:-1] == labels.shape and answers.shape[-1] > 1
        if metric == "accuracy" and wide:
            return Reading(place, logits=False, classes=True)
        if answers.shape == labels.shape or answers.shape == (*labels.shape, 1):
            finite = answers[np.isfinite(answers)]
            return Reading(place, logits=bool(((finite < 0) | (finite > 1)).any()), classes=False)
    shapes = ", ".join(str(list(answers.shape)) for answers in outputs)
    raise CannotScore(f"no output of floats fits labels of shape {list(labels.shape)} (outputs: {shapes})")


class TaskJudge:
    """One per run: asks children the labelled samples and says how the task's metric moves."""

    def __init__(self, samples: Samples, labels: Labels, names: Sequence[str], timeout_s: float) -> None:
        self.samples, self.asked, self.names, self.timeout_s = samples, labels, names, timeout_s
        self.sets = 0
        self.forms: list[list[tuple[int, ...]]] = []  # of each set, the shapes of the original's outputs
        self.baseline = 0.0
        self.reading = Reading(0, logits=False, classes=False)

    def prepare(self, baseline: Child) -> None:
        """Raises CannotScore; ChildFailed."""
        if self.samples.labels is None:
            raise CannotScore(f"{self.samples.workload.samples} holds no tensor {self.asked.label!r}")
        if self.samples.rows and self.samples.workload.contracts:
            raise CannotScore("its rows are made equal by the contracts, and their labels are not: give whole calls")
        answers, self.sets = self._answers(baseline, None)
        labels = self._labels()
        self.reading = reading(self.asked.metric, labels, answers)
        self.baseline = self.reading.score(self.asked.metric, labels, answers[self.reading.output])

    def judge(self, candidate: Child, precision: Precision) -> TaskMetric:
        """Raises ChildFailed."""
        answers, _ = self._answers(candidate, self.sets)
        labels = self._labels()
        value = self.reading.score(self.asked.metric, labels, answers[self.reading.output])
        better = -1.0 if self.asked.metric == "normalised_entropy" else 1.0
        drop, holds = better * (self.baseline - value), precision != "float32"
        return TaskMetric(
            metric=self.asked.metric,
            label=self.asked.label,
            output=self.names[self.reading.output],
            samples=labels.size,
            baseline=self.baseline,
            candidate=value,
            drop=drop,
            max_drop=self.asked.max_drop,
            holds=holds,
            passed=not holds or drop <= self.asked.max_drop,
        )

    def _labels(self) -> np.ndarray:
        parts = [self.samples.labelled(number) for number in range(self.sets)]
        return np.concatenate([part for part in parts if part.size])

    def _answers(self, child: Child, sets: int | None) -> tuple[list[np.ndarray], int]:
        """Of each output, all sets behind one another; and how many. None: all, or as many as there is time for."""
        wanted, first = self.samples.sets if sets is None else sets, sets is None
        parts: list[list[np.ndarray]] = []
        seconds = 0.0
        while len(parts) < wanted and (not first or seconds < MOST_SECONDS):
            numbers = range(len(parts), min(len(parts) + SETS_AT_A_TIME, wanted))
            found = ask(child, [self.samples.captured(n) for n in numbers], timeout_s=self.timeout_s)
            seconds += sum(found.seconds)
            forms = [[output.shape for output in one] for one in found.whole()]
            self.forms += forms if first else []
            if forms != self.forms[len(parts) : len(parts) + len(forms)]:
                raise FuseworksError("child:user:bad-answer", text="its answers change their shapes between samples")
            parts += [
                [self._scored(output, n) for output in one] for n, one in zip(numbers, found.whole(), strict=True)
            ]
        return [np.concatenate(column) for column in zip(*parts, strict=True)], len(parts)

    def _scored(self, output: np.ndarray, number: int) -> np.ndarray:
        """Without the rows of the last set that begin the samples anew."""
        if not self.samples.rows:
            return output[None]
        return output[: len(self.samples.labelled(number))]


def told(found: TaskMetric) -> str:
    """Why a candidate is refused."""
    return (
        f"{found.metric} goes from {found.baseline:.5f} to {found.candidate:.5f} over {found.samples} labels, "
        f"worse by {found.drop:.1e} where {found.max_drop:.1e} is allowed"
    )


def _sigmoid(values: np.ndarray) -> np.ndarray:
    found: np.ndarray = 0.5 * (1.0 + np.tanh(0.5 * values))
    return found
