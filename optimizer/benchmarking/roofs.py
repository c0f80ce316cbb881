"""The machine's measured roofs: memory bandwidth and matrix multiplication per dtype. Torch; a trusted child only."""

from __future__ import annotations

import time
from typing import Any

import torch

COPY_BYTES = 128 << 20
GEMM_SIDE = 1536
REPEATS = 5


def measure(threads: int) -> dict[str, Any]:
    """The best of a few repeats each: a roof is what can be reached, not what is usual."""
    torch.set_num_threads(threads)
    source = torch.ones(COPY_BYTES // 4)
    target = torch.empty_like(source)
    copy_s = _best_s(lambda: target.copy_(source))
    rates = {}
    for dtype in (torch.float32, torch.bfloat16):
        a, b = (torch.rand(GEMM_SIDE, GEMM_SIDE).to(dtype) for _ in range(2))
        out = torch.empty_like(a)
        rates[str(dtype).removeprefix("torch.")] = (
            2 * GEMM_SIDE**3 / _best_s(lambda a=a, b=b, o=out: torch.mm(a, b, out=o))
        )
    return {"threads": threads, "bandwidth_bytes_per_s": 2 * COPY_BYTES / copy_s, "gemm_flops_per_s": rates}


def _best_s(work: Any) -> float:
    work()
    best = float("inf")
    for _ in range(REPEATS):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best
