"""Predicted gains corrected by what such predictions came to: a slope on their logarithm, and a width that covers.

`fit` learns from records, the few of one remedy leaning on those of all; `Calibration.corrected` applies. Of a remedy
that nobody has recorded the correction is everybody's. Pure, and no more than arithmetic: it runs in every diagnosis.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from optimizer.spec import Strict

CONFIDENCE = 0.80
SCHEMA_VERSION = 1
FILE = Path(__file__).with_name("calibration.json")
# So many records of everybody stand beside a remedy's own: with as many of its own, both count alike.
POOLED = 6.0
# Of a gain's logarithm: what measuring alone is off by, however little was predicted.
LEAST_SCALE = 0.05


@dataclass(frozen=True)
class Record:
    """One prediction as it was worked out, and what came of it. `key`: rule and remedy; `model`: what it was seen on,
    so that an error is told of models that a fit has not seen."""

    key: str
    model: str
    low: float
    high: float
    realised: float

    @property
    def predicted_log(self) -> float:
        return _middle_log(self.low, self.high)

    @property
    def realised_log(self) -> float:
        return math.log(self.realised)


class Correction(Strict):
    """log(gain) = slope * log(predicted) + (centre ± half_width) * scale(log(predicted))."""

    records: int
    models: int
    slope: float
    centre: float
    half_width: float

    def corrected(self, low: float, high: float) -> tuple[float, float]:
        predicted = _middle_log(low, high)
        middle, scale = self.middle_log(predicted), _scale(predicted)
        return math.exp(middle - self.half_width * scale), math.exp(middle + self.half_width * scale)

    def middle_log(self, predicted: float) -> float:
        return self.slope * predicted + self.centre * _scale(predicted)


class Source(Strict):
    """Where the records come from, told beside every figure that leans on them."""

    recorded_at: str
    machine: str
    evidence: str
    note: str = ""


class Calibration(Strict):
    """`calibration.json`. `target`: the kind of hardware that it was recorded on, and speaks of."""

    schema_version: int = SCHEMA_VERSION
    target: str
    confidence: float = CONFIDENCE
    sources: list[Source]
    pooled: Correction
    by_remedy: dict[str, Correction]

    def of(self, key: str) -> Correction:
        return self.by_remedy.get(key, self.pooled)

    def corrected(self, key: str, low: float, high: float) -> tuple[float, float]:
        return self.of(key).corrected(low, high)

    def in_words(self, key: str) -> str:
        own = self.by_remedy.get(key)
        if own is None:
            return f"corrected by {self.pooled.records} measured gains, none of this remedy"
        return f"corrected by {own.records} measured gains of this remedy, on {own.models} models, and by all others"


@lru_cache(maxsize=1)
def packaged() -> Calibration | None:
    """What this version was calibrated by; None where it has no such file."""
    return Calibration.model_validate_json(FILE.read_text()) if FILE.exists() else None


def fit(records: Sequence[Record], *, target: str, sources: Iterable[Source] = ()) -> Calibration:
    """The width is told by errors on models that a fit has not seen; slope and centre lean on all records."""
    if not records:
        raise ValueError("no record: nothing to fit")
    lines, unseen = _lines(records), _errors_on_unseen_models(records)
    pooled_weights = _alike(records)

    def correction(key: str | None) -> Correction:
        own = [record for record in records if key is None or record.key == key]
        line = lines.get(key or "", lines[""])
        weights = _leaning(records, key, pooled_weights)
        effective = len(own) if key is None else len(own) + POOLED
        level = min(1.0, CONFIDENCE * (1 + 1 / effective))
        return Correction(
            records=len(own),
            models=len({record.model for record in own}),
            slope=round(line.slope, 5),
            centre=round(line.centre, 5),
            half_width=round(_quantile([abs(error) for error in unseen], weights, level), 5),
        )

    return Calibration(
        target=target,
        sources=list(sources),
        pooled=correction(None),
        by_remedy={key: correction(key) for key in sorted({record.key for record in records})},
    )


@dataclass(frozen=True)
class _Line:
    slope: float
    centre: float

    def error(self, record: Record) -> float:
        """In scales: how far beyond this line's middle it came out."""
        scale = _scale(record.predicted_log)
        return (record.realised_log - self.slope * record.predicted_log) / scale - self.centre


def _lines(records: Sequence[Record]) -> Mapping[str, _Line]:
    """By key; under the empty one everybody's."""
    weights = _alike(records)
    typical = _sum(weights, [record.predicted_log**2 for record in records]) or LEAST_SCALE**2
    # where hardly anything was predicted there is no slope to tell: then predictions stand as they are
    slope = (_sum(weights, [r.predicted_log * r.realised_log for r in records]) + LEAST_SCALE**2) / (
        _sum(weights, [r.predicted_log**2 for r in records]) + LEAST_SCALE**2
    )
    slopes = {"": slope}
    for key in {record.key for record in records}:
        own = [record for record in records if record.key == key]
        products = sum(r.predicted_log * r.realised_log for r in own)
        squares = sum(r.predicted_log**2 for r in own)
        slopes[key] = (products + POOLED * typical * slope) / (squares + POOLED * typical)
    lines = {}
    for key, one in slopes.items():
        errors = [_Line(slopes[r.key] if key else one, 0.0).error(r) for r in records]
        lines[key] = _Line(one, _median(errors, _leaning(records, key or None, weights)))
    return lines


def _errors_on_unseen_models(records: Sequence[Record]) -> list[float]:
    """Of each record, by a fit without its model; of the only model there is, by its own."""
    by_model = {}
    for model in {record.model for record in records}:
        others = [record for record in records if record.model != model]
        by_model[model] = _lines(others or records)
    return [by_model[r.model].get(r.key, by_model[r.model][""]).error(r) for r in records]


def _alike(records: Sequence[Record]) -> list[float]:
    """Weights that sum to one, each remedy's records together as much as any other's."""
    counts = Counter(record.key for record in records)
    return [1 / counts[record.key] / len(counts) for record in records]


def _leaning(records: Sequence[Record], key: str | None, pooled: Sequence[float]) -> list[float]:
    """Everybody's weight, and one more for each record of `key`."""
    return [POOLED * weight + (record.key == key) for record, weight in zip(records, pooled, strict=True)]


def _quantile(values: Sequence[float], weights: Sequence[float], level: float) -> float:
    """The least value that so much of the weight does not lie above."""
    pairs = sorted(zip(values, weights, strict=True))
    target, seen = level * sum(weights), 0.0
    for value, weight in pairs:
        seen += weight
        if seen >= target * (1 - 1e-12):
            return value
    return pairs[-1][0]


def _median(values: Sequence[float], weights: Sequence[float]) -> float:
    """Half-way between the two where half of the weight lies on either side."""
    return (_quantile(values, weights, 0.5) - _quantile([-value for value in values], weights, 0.5)) / 2


def _sum(weights: Sequence[float], values: Sequence[float]) -> float:
    return sum(weight * value for weight, value in zip(weights, values, strict=True))


def _scale(predicted_log: float) -> float:
    """The larger the predicted gain, the further off it may be."""
    return LEAST_SCALE + abs(predicted_log)


def _middle_log(low: float, high: float) -> float:
    return (math.log(low) + math.log(high)) / 2
