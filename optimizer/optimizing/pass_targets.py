"""Which passes nothing is built from on a target: they say what they find in a graph all the same. No torch."""

from __future__ import annotations

# The kernel library's operations are lowered to plain torch again for a processor: nothing is gained there.
GPU_ONLY = frozenset({"fuse_operations"})
# Finding, gathering and putting back the valid rows runs on one core, and on a GPU it waits for the device. On one
# thread it gains (CPU time: DIN 1.37, one user 1.51); on two it cost DIN under AOTInductor more than what it saved.
ONE_THREAD_ONLY = frozenset({"skip_padded_rows"})


def matched_only(target: str, threads: int | None = None) -> frozenset[str]:
    """`threads`: of the run; None where it is not known, or where there is none."""
    if target != "cpu":
        return ONE_THREAD_ONLY
    return GPU_ONLY if threads == 1 else GPU_ONLY | ONE_THREAD_ONLY
