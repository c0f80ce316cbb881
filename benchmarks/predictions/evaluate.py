"""How good are corrected predictions on a model that the correction has not seen? Leave one model out, fit, predict."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from optimizer.diagnosing.correcting import CONFIDENCE, Record, fit
from optimizer.spec import Strict

# The goals: what intervals of CONFIDENCE should cover, and how wide they may be.
COVERED, WIDEST = 0.75, 1.5


class Scores(Strict):
    """Of predictions as intervals. Errors are of logarithms: 0.1 is ten per cent; `bias` above 0 predicts too much."""

    records: int
    models: int
    coverage: float
    width: float = 0.0
    error: float
    bias: float

    @property
    def holds(self) -> bool:
        return self.coverage >= COVERED and self.width <= WIDEST


class Evaluation(Strict):
    """`constant`: the one gain that, chosen after the fact, has the least error of all; `constants`: one a remedy."""

    confidence: float = CONFIDENCE
    raw: Scores
    corrected: Scores
    constant: float
    constant_error: float
    constants_error: float
    by_remedy: dict[str, Scores]

    @property
    def holds(self) -> bool:
        return self.corrected.holds and self.corrected.error < self.constant_error


def evaluate(records: Sequence[Record]) -> Evaluation:
    """Raises ValueError where there are fewer than two models: then nothing can be left out."""
    models = sorted({record.model for record in records})
    if len(models) < 2:
        raise ValueError("records of two models at least are needed: each is predicted from the others")
    pairs = []
    for model in models:
        seen = fit([record for record in records if record.model != model], target="cpu")
        pairs += [(r, seen.corrected(r.key, r.low, r.high)) for r in records if r.model == model]
    constant = statistics.median(record.realised_log for record in records)
    own = {key: statistics.median(r.realised_log for r in records if r.key == key) for key in {r.key for r in records}}
    return Evaluation(
        raw=_scores([(record, (record.low, record.high)) for record in records]),
        corrected=_scores(pairs),
        constant=round(math.exp(constant), 4),
        constant_error=_mean([abs(record.realised_log - constant) for record in records]),
        constants_error=_mean([abs(record.realised_log - own[record.key]) for record in records]),
        by_remedy={key: _scores([pair for pair in pairs if pair[0].key == key]) for key in sorted(own)},
    )


def _scores(pairs: Sequence[tuple[Record, tuple[float, float]]]) -> Scores:
    errors = [(math.log(low) + math.log(high)) / 2 - record.realised_log for record, (low, high) in pairs]
    return Scores(
        records=len(pairs),
        models=len({record.model for record, _ in pairs}),
        coverage=_mean([float(low <= record.realised <= high) for record, (low, high) in pairs]),
        width=round(statistics.median(high / low for _, (low, high) in pairs), 4),
        error=_mean([abs(error) for error in errors]),
        bias=_mean(errors),
    )


def _mean(values: Sequence[float]) -> float:
    return round(statistics.fmean(values), 4)
