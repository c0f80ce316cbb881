"""The Pareto front of time, memory and error over all candidates that passed: what a user may choose among.

A point is dominated by one that is no worse in all three and better in one, beyond what is told apart at all: 2 % of
the speed, 1 % of the memory, and below the floor of float32's own rule errors are rounding. No verdict: a speedup that
is marked as not judged is a screening's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optimizer.benchmarking.statistics import SAME_SHARE
from optimizer.result import Comparison, Evaluation, EvaluationStatus, FrontPoint, OutputNumerics
from optimizer.verifying.numerics import FLOAT32_FLOOR

BASELINE = "baseline"
MEMORY_SHARE, MEMORY_BYTES = 0.01, 1 << 20


def front(evaluations: Mapping[str, Evaluation], comparisons: Sequence[Comparison]) -> list[FrontPoint]:
    """Fastest first. Left out is what has no speed over the original under equal settings, or no figure of memory."""
    judged = {c.other: c.speedup for c in comparisons if c.base == BASELINE}
    points = []
    for name, evaluation in evaluations.items():
        performance = evaluation.performance
        if evaluation.status != EvaluationStatus.PASSED or performance is None:
            continue
        speedup = 1.0 if name == BASELINE else judged.get(name, evaluation.screened_speedup)
        error = _baseline_error(evaluations) if name == BASELINE else _error(evaluation)
        if speedup is None or error is None or performance.peak_memory_bytes is None:
            continue
        points.append(
            FrontPoint(
                candidate=name,
                latency_ms=performance.median_ms,
                speedup=speedup,
                judged=name in judged or name == BASELINE,
                peak_memory_bytes=performance.peak_memory_bytes,
                error=error,
            )
        )
    points.sort(key=lambda point: -point.speedup)
    for point in points:
        point.dominated_by = next((other.candidate for other in points if _dominates(other, point)), None)
    return points


def _dominates(one: FrontPoint, other: FrontPoint) -> bool:
    signs = [
        _sign(one.speedup - other.speedup, SAME_SHARE * max(one.speedup, other.speedup)),
        _sign(
            other.peak_memory_bytes - one.peak_memory_bytes,
            max(MEMORY_BYTES, MEMORY_SHARE * max(one.peak_memory_bytes, other.peak_memory_bytes)),
        ),
        _sign(max(other.error, FLOAT32_FLOOR) - max(one.error, FLOAT32_FLOOR), 0.0),
    ]
    return min(signs) >= 0 and max(signs) > 0


def _sign(gain: float, told_apart: float) -> int:
    return 1 if gain > told_apart else -1 if gain < -told_apart else 0


def _error(evaluation: Evaluation) -> float | None:
    outputs = _floats(evaluation)
    return max((one.error for one in outputs), default=None)


def _baseline_error(evaluations: Mapping[str, Evaluation]) -> float | None:
    """As verification of any candidate found it: the baseline answered the same questions every time."""
    for evaluation in evaluations.values():
        outputs = _floats(evaluation)
        if outputs:
            return max(one.baseline_error for one in outputs)
    return None


def _floats(evaluation: Evaluation) -> list[OutputNumerics]:
    outputs = evaluation.verification.outputs if evaluation.verification else []
    return [one for one in outputs if one.yardstick != "places"]
