"""The metric of the task itself, where samples have labels: of the original and of a candidate."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optimizer.result.base import Model


class TaskMetric(Model):
    """Computed over the same labelled samples on both sides."""

    metric: Literal["auc", "normalised_entropy", "accuracy"]
    label: str
    output: str
    samples: int = Field(description="labels that were scored")
    baseline: float
    candidate: float
    drop: float = Field(description="how much worse the candidate is, whatever the metric; below 0 it is better")
    max_drop: float
    holds: bool = Field(description="whether a larger drop refuses the candidate: so it is in a lower precision")
    passed: bool
