"""The operation table as data: equal rows joined, shares, and how near each row comes to the machine's roofs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from optimizer.profiling.document import Operation, Profile

MAX_ROWS = 300


def joined(operations: Iterable[Operation]) -> list[Operation]:
    """Rows that agree in everything but time become one; the slowest come first, the tail is one last row."""
    groups: dict[tuple[Any, ...], list[Operation]] = {}
    for row in operations:
        nodes = tuple(n.node for n in row.nodes)
        place = (row.op, row.module, row.source, row.phase)
        key = (*place, nodes, str(row.shapes), tuple(row.dtypes), row.flops, row.bytes)
        groups.setdefault(key, []).append(row)
    rows = [
        rows[0].model_copy(
            update={
                "calls": sum(r.calls for r in rows),
                "self_ms": sum(r.self_ms for r in rows),
                "flops": _sum(r.flops for r in rows),
                "bytes": _sum(r.bytes for r in rows),
            }
        )
        for rows in groups.values()
    ]
    rows.sort(key=lambda row: -row.self_ms)
    rest = rows[MAX_ROWS:]
    if rest:
        calls, self_ms = sum(r.calls for r in rest), sum(r.self_ms for r in rest)
        rows = [*rows[:MAX_ROWS], Operation(op=f"({len(rest)} smaller rows)", calls=calls, self_ms=self_ms, share=0.0)]
    total = sum(row.self_ms for row in rows)
    return [row.model_copy(update={"share": row.self_ms / total if total else 0.0}) for row in rows]


def with_roofs(profile: Profile, roofs: Mapping[str, Any]) -> Profile:
    """Fills `attainable_share`: the shortest time that the roofs allow / the time taken.

    Above 1 means that the data came out of a cache, which is faster than the memory that the roof was measured on.
    """
    rows = [row.model_copy(update={"attainable_share": attainable_share(row, roofs)}) for row in profile.operations]
    return profile.model_copy(update={"operations": rows, "roofs": dict(roofs)})


def attainable_share(row: Operation, roofs: Mapping[str, Any]) -> float | None:
    """None when nothing is known of the row's work, or no roof of its kind was measured."""
    bandwidth = roofs.get("bandwidth_bytes_per_s")
    dtype = "bfloat16" if "bfloat16" in row.dtypes else "float32"
    gemm = dict(roofs.get("gemm_flops_per_s") or {}).get(dtype)
    seconds = []
    if row.bytes and bandwidth:
        seconds.append(row.bytes / bandwidth)
    if row.flops and gemm:
        seconds.append(row.flops / gemm)
    return max(seconds) / (row.self_ms / 1e3) if seconds and row.self_ms else None


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
