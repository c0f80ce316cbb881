"""What is in an upload, what a diagnosis found in it, and under which conditions anything was measured."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from optimizer.result.base import Model


class Conditions(Model):
    """What must be equal for two results to be compared; `fingerprint` is the digest of `fixed`."""

    fixed: dict[str, Any] = Field(description="device, isa, cores, library versions, threads, settings")
    observed: dict[str, Any] = Field(default_factory=dict, description="load, clocks, noise")
    fingerprint: str


class PredictedGain(Model):
    """What mending a cause would give, as speedups: time now / time then."""

    low: float
    high: float
    model: str = Field(description="how the interval was worked out")
    confidence: float | None = Field(
        default=None, description="once it was corrected by what such predictions came to; null: only worked out"
    )
    uncorrected: tuple[float, float] | None = Field(default=None, description="low and high as they were worked out")


class Finding(Model):
    rule: str
    severity: Literal["high", "medium", "low", "info"]
    title: str
    evidence: dict[str, Any] = Field(default_factory=dict)
    remedy: str = ""
    threshold: str = Field(default="", description="from where on it is a finding, and who says so")
    steps: list[str] = Field(default_factory=list, description="the remedy, step by step")
    mended_by: list[dict[str, Any]] = Field(
        default_factory=list, description="the steps of a plan that mend it together, as recipes write them"
    )
    cost_ms: float | None = Field(default=None, description="time that the cause takes")
    cost_share: float | None = Field(default=None, description="of the whole time")
    takes_ms: dict[str, float] = Field(default_factory=dict, description="the cost by the pool of time that it lies in")
    gain: PredictedGain | None = None
    counted_share: float | None = Field(
        default=None, description="of the whole time: what mending gives back beyond the findings ranked before it"
    )


class Inspection(Model):
    """What is in the upload."""

    format: Literal["pt2", "py", "zip", "onnx"]
    sha256: str
    size_bytes: int
    parameters: int
    parameter_bytes: int
    operations: dict[str, int] = Field(default_factory=dict)
    outputs: list[dict[str, Any]] = Field(default_factory=list)
    dynamic: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    id_rows: dict[str, list[int | None]] = Field(default_factory=dict, description="rows that each column indexes")


class Artifact(Model):
    name: str
    path: str
    size_bytes: int
    sha256: str
