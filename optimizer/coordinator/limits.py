"""What a workload limits: precisions, memory, latency, error. Who keeps them and who does not.

A candidate that takes more memory than the workload allows is none. A latency or an error beyond its limit is told:
the original may break it, too, and then a winner that is nearer to it is still worth having.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optimizer.coordinator.answer import Answer
from optimizer.coordinator.context import RunContext
from optimizer.errors import FuseworksError, catalogue
from optimizer.result import LimitCheck, OutputNumerics, Performance
from optimizer.spec import Workload

MIB = 1 << 20

catalogue(
    {
        "run:user:no-precision": (
            "No precision is left to compute in: the policy allows {policy}, and the workload {workload}.",
            "Allow one of the workload's with --precision, or name one of the policy's under `precisions` in the "
            "workload.",
        ),
        "benchmarking:user:memory-limit": (
            "{name} takes {taken_mib} MiB, and the workload allows {limit_mib} MiB.",
            "Raise `limits.peak_memory_bytes` in the workload, or let smaller batches be served.",
        ),
    }
)


def settle_precisions(context: RunContext, answer: Answer, workload: Workload) -> None:
    """From here on the policy allows what the workload allows, too. Raises FuseworksError (`run:user:no-precision`)."""
    policy = context.spec.policy
    both = [p for p in policy.precisions if workload.precisions is None or p in workload.precisions]
    if not both:
        told = {"policy": ", ".join(policy.precisions), "workload": ", ".join(workload.precisions or ())}
        raise FuseworksError("run:user:no-precision", place="workload: precisions", **told)
    left_out = [p for p in policy.precisions if p not in both]
    if left_out:
        answer.note(context, f"The policy allows {', '.join(left_out)} and the workload does not: it is not searched.")
    answer.precisions = both
    context.spec = context.spec.model_copy(update={"policy": policy.model_copy(update={"precisions": both})})


def check_memory(workload: Workload, name: str, taken: int | None) -> None:
    """`taken`: peak bytes; None where they are not known. Raises FuseworksError (`benchmarking:user:memory-limit`)."""
    limit = workload.limits.peak_memory_bytes
    if limit is not None and taken is not None and taken > limit:
        figures: dict[str, Any] = {"taken_mib": f"{taken / MIB:.1f}", "limit_mib": f"{limit / MIB:.1f}"}
        raise FuseworksError("benchmarking:user:memory-limit", place=name, name=name, **figures)


def limit_checks(
    workload: Workload, winner: Performance, baseline: Performance, numerics: Sequence[OutputNumerics]
) -> list[LimitCheck]:
    """One entry for each limit that the workload states. Errors are those of floats; integers are judged by places."""
    floats = [row for row in numerics if row.yardstick != "places"]
    measured: dict[str, tuple[float | None, float | None]] = {
        "latency_ms": (winner.p99_ms, baseline.p99_ms),
        "peak_memory_bytes": (winner.peak_memory_bytes, baseline.peak_memory_bytes),
        "max_error": (
            max((row.error for row in floats), default=None),
            max((row.baseline_error for row in floats), default=None),
        ),
    }
    limits = workload.limits.model_dump(exclude_none=True)
    if not numerics:  # of a comparison, where neither side is the truth
        limits.pop("max_error", None)
    return [_check(name, float(limit), *measured[name]) for name, limit in limits.items()]


def _check(name: str, limit: float, winner: float | None, baseline: float | None) -> LimitCheck:
    return LimitCheck.model_validate(
        {
            "name": name,
            "limit": limit,
            "winner": winner,
            "winner_kept": None if winner is None else winner <= limit,
            "baseline": baseline,
            "baseline_kept": None if baseline is None else baseline <= limit,
        }
    )


def in_words(checks: Sequence[LimitCheck]) -> str:
    """For the summary: the limits that the winner does not keep; empty when it keeps all."""
    broken = [f"{one.name} ({one.winner:.4g} of {one.limit:.4g})" for one in checks if one.winner_kept is False]
    return f"; beyond the workload's limit of {', '.join(broken)}" if broken else ""
