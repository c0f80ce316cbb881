"""What was predicted of a model on a GPU that is not there, as pages and the API show it. Never beside a measured
figure: nothing of it was run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from fuseworks.core import figures
from fuseworks.runs.models import Run
from optimizer.result import Prediction


@dataclass(frozen=True)
class Row:
    """One graph's sum, of one call: as uploaded, after our rewrites, or the second less the first."""

    key: str
    lower_ms: float
    upper_ms: float
    kernels_launched: int
    bytes_moved: int


@dataclass(frozen=True)
class Side:
    """The kernels and the library calls of one graph, those with the largest bound first."""

    key: str
    kernels: list[Any]
    extern_calls: list[Any]
    notes: list[str]


@dataclass(frozen=True)
class Shown:
    """`rows` ends with the difference and `sides` with the graph as uploaded where a rewrite applied; else both hold
    the upload alone."""

    prediction: Prediction
    rows: list[Row]
    sides: list[Side]
    assumptions: list[tuple[str, str]]


def shown(prediction: Prediction) -> Shown:
    before, after, less = prediction.before, prediction.after, prediction.difference
    rows = [_row("before", before)]
    sides = [_side("after" if prediction.applied else "before", after)]
    if prediction.applied:
        rows += [_row("after", after), _row("difference", less)]
        sides.append(_side("before", before))
    assumed = [(name, f"{value:g}") for name, value in prediction.formula.assumptions.items()]
    return Shown(prediction, rows, sides, assumed)


def of_run(run: Run) -> Prediction | None:
    """Out of the stored document of a run that has one; None for one of another schema, of which the page of the result
    says so."""
    stored = getattr(run, "result", None)
    found = stored.document.get("predicted") if stored is not None else None
    if found is None:
        return None
    try:
        return Prediction.model_validate(found)
    except ValidationError:
        return None


def as_json(prediction: Prediction | None) -> dict[str, Any] | None:
    """The sums alone: kernels, calls and formula are in the document."""
    if prediction is None:
        return None
    return {
        "target": prediction.target,
        "device": prediction.device,
        "sizes": prediction.sizes,
        "applied": prediction.applied,
        "before": _sum(prediction.before),
        "after": _sum(prediction.after),
        "difference": _sum(prediction.difference),
    }


def signed(value: float, told: str) -> str:
    """A difference with its sign: `+0.120 ms`, `−24`."""
    return f"−{told.lstrip('-')}" if value < 0 else f"+{told}" if value > 0 else told


def microseconds(value: Any) -> str:
    found = figures.number(value)
    return figures.MISSING if found is None else f"{figures.three_digits(found)} µs"


def _row(key: str, side: Any) -> Row:
    low, high = side.predicted_ms
    return Row(key, low, high, side.kernels_launched, side.bytes_moved)


def _side(key: str, side: Any) -> Side:
    def largest(entries: list[Any]) -> list[Any]:
        return sorted(entries, key=lambda one: -one.bound_us)

    return Side(key, largest(side.kernels), largest(side.extern_calls), list(side.notes))


def _sum(side: Any) -> dict[str, Any]:
    return {
        "predicted_ms": list(side.predicted_ms),
        "kernels_launched": side.kernels_launched,
        "bytes_moved": side.bytes_moved,
    }
