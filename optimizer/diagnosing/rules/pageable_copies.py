"""Copies from pageable memory: each waits for its stream and holds the host up. Silent without any in the steps."""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.trace_rule import Claim, GpuRule, kernels


@register_rule
class PageableCopies(GpuRule):
    name = "pageable_copies"
    threshold = "at least one copy a step from pageable memory (CUDA's documentation: it waits for its stream first)"

    def look(self, rank: RankTrace) -> Claim | None:
        rows = [row for row in rank.copy_rows if row.kind == "HtoD pageable"]
        calls = sum(row.calls for row in rows)
        if calls < rank.per_step:
            return None
        return Claim(
            title=f"{calls / rank.per_step:.1f} copies a step go to the GPU from pageable memory",
            evidence={
                "memcpy_pageable": calls,
                "bytes": sum(row.bytes for row in rows),
                "copy_ms": round(sum(row.total_ms for row in rows), 3),
                "to_pageable": sum(row.calls for row in rank.copy_rows if row.kind == "DtoH pageable"),
            },
            takes=kernels(rank, lambda row: row.kind == "memcpy" and "HtoD" in row.name and "Pageable" in row.name),
            recovers=(0.5, 0.95),
            model="the time of these copies; from pinned memory they run beside the kernels, half of it at least",
            steps=(
                "Pin the memory: DataLoader(pin_memory=True), or tensor.pin_memory() once for what is sent each step.",
                "Copy with .to(device, non_blocking=True), on a stream of its own where it is much.",
                "Merge small copies into one.",
            ),
        )
