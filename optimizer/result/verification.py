"""Whether a candidate computes what the model computes: errors by output, and every probe. No times."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optimizer.result.base import Model
from optimizer.result.task_metric import TaskMetric


class ColumnNumerics(Model):
    """The column of an output that is nearest to what it is allowed, judged by its own yardstick."""

    column: int
    error: float
    allowed: float
    yardstick: Literal["spread", "size", "unit"]


class OutputNumerics(Model):
    """Errors of one output against the float64 reference: centred relative L2, pooled over `samples` items."""

    output: str
    dtype: str
    error: float
    baseline_error: float
    allowed: float
    max_abs_error: float
    samples: int
    passed: bool
    reason: str | None = None
    yardstick: Literal["spread", "size", "unit", "places"] = Field(
        default="spread",
        description="what errors are shares of: the output's spread; its size when it is constant; 1 when it is zero; "
        "for integers the number of places",
    )
    worst_column: ColumnNumerics | None = Field(
        default=None, description="of a float output with 2 to 64 columns, which are judged one by one as well"
    )
    inputs: Literal["drawn", "captured"] = Field(
        default="drawn", description="captured: on the workload's samples, which are judged by their own spread"
    )


class Probe(Model):
    """One extra input set tried in verification, or a negative control."""

    name: str
    kind: Literal["random", "sizes", "edge", "mutation", "held_output", "negative_control", "repeat", "convergence"]
    passed: bool
    judged: bool = Field(
        default=True, description="false: it could not be asked, `reason` says why, and it holds nothing"
    )
    reason: str | None = None


class Convergence(Model):
    """A short training run beside the original's, on the same batches. Shares are of the loss's size."""

    steps: int
    baseline_losses: list[float | None] = Field(description="by step; null where it is not finite")
    losses: list[float | None]
    deviation: float = Field(description="RMS difference of the two curves")
    noise: float = Field(description="what rounding alone makes of the original's curve")
    allowed: float
    passed: bool
    reason: str | None = None


class Verification(Model):
    passed: bool
    outputs: list[OutputNumerics] = Field(default_factory=list)
    probes: list[Probe] = Field(default_factory=list)
    reason: str | None = None
    first_diverging: str | None = None
    convergence: Convergence | None = Field(default=None, description="of a training step")
    task_metric: TaskMetric | None = Field(default=None, description="where the workload's samples have labels")
