"""Which generation of GPU a trace was taken on: by the header, else by the names of its kernels."""

from __future__ import annotations

import re

from optimizer.diagnosing.traces.document import RankTrace

# libraries name the generation that a kernel was written for; one of a newer generation never runs on an older GPU
BY_NAME = (
    (re.compile(r"sm100_|blackwell", re.IGNORECASE), (10, 0)),
    (re.compile(r"sm90_|hopper|nvjet", re.IGNORECASE), (9, 0)),
    (re.compile(r"ampere_|sm80_|cutlass_80"), (8, 0)),
    (re.compile(r"turing_|sm75_|cutlass_75"), (7, 5)),
    (re.compile(r"volta_|sm70_|cutlass_70"), (7, 0)),
)


def compute_capability(rank: RankTrace) -> tuple[int, int] | None:
    """Of a CUDA GPU. None: not told."""
    if rank.device.compute_capability is not None:
        return rank.device.compute_capability
    for pattern, capability in BY_NAME:
        if any(pattern.search(row.name) for row in rank.kernel_rows):
            return capability
    return None
