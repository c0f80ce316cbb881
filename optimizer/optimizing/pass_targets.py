"""Which passes nothing is built from on a target: they say what they find in a graph all the same. No torch."""

from __future__ import annotations

# The kernel library's operations are lowered to plain torch again for a processor: nothing is gained there.
GPU_ONLY = frozenset({"fuse_operations"})
# Counting the valid rows makes a GPU wait, and no graph of its kernels can be recorded.
CPU_ONLY = frozenset({"skip_padded_rows"})


def matched_only(target: str) -> frozenset[str]:
    return GPU_ONLY if target == "cpu" else CPU_ONLY
