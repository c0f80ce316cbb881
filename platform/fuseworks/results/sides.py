"""Which upload is which in a `compare` run, and the latency_ratio that follows: said here and nowhere else.

A run of the platform has a `version` (the candidate) and an `against` (the version before). A comparison of the
optimizer has a `base` (the spec's `model`) and an `other` (the spec's `against`), and speedup = base's time / other's
time. Which of the run's two files was the spec's `model` is not assumed: `inspection` in the document has its SHA-256.

    latency_ratio = the version's time / the time of `against`        below 1: the version is faster
    the base is `against`:    latency_ratio = 1 / speedup, of the interval [1 / high, 1 / low]
    the base is the version:  latency_ratio = speedup, of the interval [low, high]
"""

from __future__ import annotations

from dataclasses import dataclass

from fuseworks.runs.models import Purpose, Run
from optimizer.result import Comparison, Result, Verdict

BASE, OTHER = "baseline", "other"  # as the coordinator files the spec's `model` and `against`
_TURNED = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}


@dataclass(frozen=True)
class Ratio:
    value: float
    low: float
    high: float
    confidence: float

    def inverse(self) -> Ratio:
        return Ratio(1 / self.value, 1 / self.high, 1 / self.low, self.confidence)


@dataclass(frozen=True)
class Sides:
    """A measured comparison as the run's version sees it. `version_name` and `against_name` are the document's."""

    latency_ratio: Ratio
    speedup: Ratio
    verdict: Verdict
    comparison: Comparison
    version_name: str
    against_name: str


def sides(run: Run, result: Result) -> Sides | None:
    """None when the run compared nothing, or when the document does not tell which upload was measured as what."""
    told = side_names(run, result)
    if told is None or not result.comparisons:
        return None
    version_name, against_name = told
    comparison = result.comparisons[0]
    interval = comparison.interval
    speedup = Ratio(comparison.speedup, interval.low, interval.high, interval.confidence)
    if against_name == BASE:
        return Sides(speedup.inverse(), speedup, comparison.verdict, comparison, version_name, against_name)
    turned = _TURNED.get(comparison.verdict, comparison.verdict)
    return Sides(speedup, speedup.inverse(), turned, comparison, version_name, against_name)


def side_names(run: Run, result: Result) -> tuple[str, str] | None:
    """Under which names the document has the version and `against`, as far as it came with them."""
    if run.purpose != Purpose.COMPARE or run.against is None or result.inspection is None:
        return None
    # the same file on both sides: either reading is as true as the other
    if result.inspection.sha256 == run.against.sha256:
        return OTHER, BASE
    return (BASE, OTHER) if result.inspection.sha256 == run.version.sha256 else None
