"""What was measured together, with intervals and verdicts: the only place of a speedup that is judged."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from optimizer.result.base import Model, Verdict
from optimizer.spec import Precision


class Interval(Model):
    low: float
    high: float
    confidence: float = 0.99


class Comparison(Model):
    """Two contenders measured together in fresh processes. `speedup` is base time / other time."""

    base: str
    other: str
    speedup: float
    interval: Interval
    verdict: Verdict
    noise_floor: float
    pairs: int
    looks: int
    same_settings: bool
    reason: str | None = Field(default=None, description="why there is no verdict, beside the interval's width")
    log_speedups: list[float] = Field(description="one per pair of fresh processes")


class FirstComparison(Model):
    """An early look at one candidate, in a few pairs of fresh processes: an interval and no verdict. The judgement
    measures anew, and uses nothing of it."""

    base: str
    other: str
    speedup: float
    interval: Interval
    pairs: int
    at_s: float = Field(description="seconds since the run began")
    log_speedups: list[float] = Field(description="one per pair of fresh processes")


class FrontPoint(Model):
    """One candidate that passed, by what it costs: time, memory and error. No verdict on differences."""

    candidate: str
    latency_ms: float = Field(description="median of single calls")
    speedup: float = Field(description="over the original; by it points are compared, as it was measured beside them")
    judged: bool = Field(description="false: the speedup is that of a screening")
    peak_memory_bytes: int
    error: float = Field(description="the largest of its outputs', against float64")
    dominated_by: str | None = Field(
        default=None, description="what is no worse in all three and better in one; null: it is on the front"
    )


class AblationRow(Model):
    """What the winner loses without one step: time without it / time with it."""

    step: dict[str, Any]
    measured_on: str | None = Field(
        default=None,
        description="the candidate of which the winner is a part, where the step was left out of that one instead",
    )
    gain: float | None = None
    interval: Interval | None = None
    verdict: Verdict | None = None
    noise_floor: float | None = Field(
        default=None, description="how far the winner may seem to differ from itself in as many pairs"
    )
    pairs: int = 0
    reason: str | None = Field(default=None, description="why it was not measured")


class BestPeer(Model):
    name: str
    speedup: float = Field(description="baseline time / best peer's time")
    interval: Interval
    best_ms: float = Field(description="median of single calls")


class JudgedPeer(BestPeer):
    """A peer in the judgement. The best one is chosen by these figures, so that its own is a selection's."""

    precision: Precision
    winner_speedup: float | None = Field(default=None, description="its time / winner's time; null: it is the winner")
    winner_interval: Interval | None = None
    winner_verdict: Verdict | None = None
    as_run: Comparison | None = Field(default=None, description="the winner over it in default settings")
    error: float | None = Field(default=None, description="of its output that comes nearest to what is `allowed`")
    allowed: float | None = None


class LimitCheck(Model):
    """One limit of the workload, and what the judgement measured of winner and baseline; null where nothing was."""

    name: Literal["latency_ms", "peak_memory_bytes", "max_error"]
    limit: float
    winner: float | None = None
    winner_kept: bool | None = None
    baseline: float | None = None
    baseline_kept: bool | None = None
