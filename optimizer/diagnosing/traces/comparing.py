"""Two traces (or two jobs) beside each other: which operations were added, removed or changed, and what each explains.

The time of a step is what operations took on the GPU, less what ran side by side, and the idle time by its cause: these
rows add up to the difference. Traces without a GPU are compared by what operations took on the host themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from optimizer.diagnosing.traces.document import RankTrace

Status = Literal["same", "changed", "added", "removed"]
CHANGED = 0.05  # of its own time
EQUAL = 0.001  # of the time of a step: what differs by less explains nothing
MAX_ROWS = 500
NOT_ATTRIBUTED = "(launched by no recorded operation)"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ComparedRow(_Model):
    """One operation, cause of idle time, or kernel. Times and calls are of one step."""

    name: str
    status: Status
    base_ms: float
    ms: float
    difference_ms: float
    base_calls: float
    calls: float
    explains_share: float | None = Field(description="of the whole difference; null where there is none")


class TraceComparison(_Model):
    """`base` is what --against names. A positive difference: slower than the base."""

    base: list[str]
    of: list[str]
    base_step_ms: float
    step_ms: float
    difference_ms: float
    by: Literal["gpu", "host"]
    rows: list[ComparedRow] = Field(description="these add up to the difference")
    kernels: list[ComparedRow] = Field(description="the same time by kernel: names change with the GPU")


Times = dict[str, tuple[float, float]]


def compare(base: Sequence[RankTrace], other: Sequence[RankTrace]) -> TraceComparison:
    """Neither is empty. Of several ranks the mean."""
    on_gpu = all(rank.has_gpu for rank in (*base, *other))
    before, after = (_mean([_parts(rank, on_gpu) for rank in ranks]) for ranks in (base, other))
    base_ms, ms = sum(part[0] for part in before.values()), sum(part[0] for part in after.values())
    kernels_before, kernels_after = (_mean([_kernels(rank) for rank in ranks]) for ranks in (base, other))
    whole = ms - base_ms
    return TraceComparison(
        base=[rank.name for rank in base],
        of=[rank.name for rank in other],
        base_step_ms=round(base_ms, 4),
        step_ms=round(ms, 4),
        difference_ms=round(whole, 4),
        by="gpu" if on_gpu else "host",
        rows=_rows(before, after, whole, base_ms),
        kernels=_rows(kernels_before, kernels_after, whole, base_ms),
    )


def _parts(rank: RankTrace, on_gpu: bool) -> Times:
    """(milliseconds, calls) of one step."""
    steps = rank.per_step
    parts = {
        row.name: ((row.gpu_ms if on_gpu else row.self_ms) / steps, row.calls / steps)
        for row in rank.operation_rows
        if row.gpu_ms or not on_gpu
    }
    if on_gpu:
        summed = sum(row.total_ms for row in rank.kernel_rows)
        parts[NOT_ATTRIBUTED] = ((summed - sum(row.gpu_ms for row in rank.operation_rows)) / steps, 0.0)
        parts["(side by side on the GPU)"] = ((rank.busy_ms - summed) / steps, 0.0)
        parts |= {
            f"(idle: {cause.removesuffix('_ms').replace('_', ' ')})": (ms / steps, 0.0)
            for cause, ms in rank.idle.model_dump().items()
        }
    return parts


def _kernels(rank: RankTrace) -> Times:
    return {row.name: (row.total_ms / rank.per_step, row.calls / rank.per_step) for row in rank.kernel_rows}


def _mean(ranks: Sequence[Times]) -> Times:
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for parts in ranks:
        for name, (ms, calls) in parts.items():
            sums[name][0] += ms / len(ranks)
            sums[name][1] += calls / len(ranks)
    return {name: (ms, calls) for name, (ms, calls) in sums.items()}


def _rows(before: Mapping[str, tuple[float, float]], after: Times, whole: float, base_ms: float) -> list[ComparedRow]:
    nothing = (0.0, 0.0)
    rows = []
    for name in dict.fromkeys([*before, *after]):
        (old, old_calls), (new, new_calls) = before.get(name, nothing), after.get(name, nothing)
        rows.append(
            ComparedRow(
                name=name,
                status=_status(name in before, name in after, old, new, base_ms),
                base_ms=round(old, 4),
                ms=round(new, 4),
                difference_ms=round(new - old, 4),
                base_calls=round(old_calls, 2),
                calls=round(new_calls, 2),
                explains_share=round((new - old) / whole, 4) if abs(whole) > EQUAL * base_ms else None,
            )
        )
    rows.sort(key=lambda row: -abs(row.difference_ms))
    return _with_rest(rows, whole, base_ms)


def _with_rest(rows: list[ComparedRow], whole: float, base_ms: float) -> list[ComparedRow]:
    """What is beyond the limit as one row, so that the rows still add up."""
    shown, rest = rows[: MAX_ROWS - 1], rows[MAX_ROWS - 1 :]
    if len(rest) < 2:
        return rows
    difference = sum(row.difference_ms for row in rest)
    shown.append(
        ComparedRow(
            name=f"({len(rest)} further ones)",
            status="same",
            base_ms=round(sum(row.base_ms for row in rest), 4),
            ms=round(sum(row.ms for row in rest), 4),
            difference_ms=round(difference, 4),
            base_calls=round(sum(row.base_calls for row in rest), 2),
            calls=round(sum(row.calls for row in rest), 2),
            explains_share=round(difference / whole, 4) if abs(whole) > EQUAL * base_ms else None,
        )
    )
    return shown


def _status(was: bool, there: bool, old: float, new: float, base_ms: float) -> Status:
    if not was:
        return "added"
    if not there:
        return "removed"
    return "changed" if abs(new - old) > max(CHANGED * abs(old), EQUAL * base_ms) else "same"
