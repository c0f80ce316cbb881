"""What a lower precision costs and gains in each layer of a graph, as it was measured, and what was chosen."""

from __future__ import annotations

from pydantic import Field

from optimizer.result.base import Model
from optimizer.spec import Precision


class LayerPrecision(Model):
    """One layer: its own error and times in the precision that was tried, and the one that was chosen."""

    node: str
    source: str | None = Field(default=None, description="file:line of the user's code, when known")
    operation: str = Field(
        default="linear",
        description="linear: with constant weights, however it is written; else aten's, such as conv2d",
    )
    inputs: int | None = Field(
        description="of a linear layer; of others what each product sums over, or a table's rows; null: it varies"
    )
    outputs: int | None
    rows: int = Field(
        description="in a call of the measured size: of its input; of what is no linear layer, of its result"
    )
    precision: Precision = Field(description="chosen")
    tried: Precision
    weight_only: bool = Field(default=False, description="of int8: the weights alone, which is faster for few rows")
    error: float | None = Field(
        description="of the output that is furthest off, when this layer alone is in `tried`; null: not measured, as "
        "where all layers that gain keep the bound together"
    )
    share_of_allowed: float | None = Field(
        description="what that takes of what verification allows; above 1 it is beyond"
    )
    float32_ms: float = Field(description="of the layer alone, not inside the model, on one thread")
    tried_ms: float
    reason: str


class LayerPlan(Model):
    """The choice for some candidates, which differ in what the rest of the graph computes in. Verification judges each
    anew, with other samples and the engine's own rounding."""

    candidates: list[str] = Field(description="by name; empty where no layer was chosen")
    layers: list[LayerPrecision]
    share_of_allowed: float = Field(description="what the error of all chosen layers together takes of what is allowed")
    samples: int
