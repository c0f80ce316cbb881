"""The machine's measured roofs: memory bandwidth and matrix multiplication per dtype. Torch; a trusted child only."""

from __future__ import annotations

import time
from typing import Any

import torch

COPY_BYTES = 128 << 20
GEMM_SIDE = 1536
SMALL_GEMM_SIDE = 256
REPEATS = 5


def measure(threads: int) -> dict[str, Any]:
    """The best of a few repeats each: a roof is what can be reached, not what is usual."""
    torch.set_num_threads(threads)
    source = torch.ones(COPY_BYTES // 4)
    target = torch.empty_like(source)
    copy_s = _best_s(lambda: target.copy_(source))
    rates = {
        "float32": _gemm_flops_per_s(torch.float32, GEMM_SIDE),
        # without hardware for it a bfloat16 product is emulated, at a hundredth of the speed: a small one tells as much
        "bfloat16": _gemm_flops_per_s(torch.bfloat16, SMALL_GEMM_SIDE),
    }
    if rates["bfloat16"] > rates["float32"] / 4:
        rates["bfloat16"] = _gemm_flops_per_s(torch.bfloat16, GEMM_SIDE)
    return {"threads": threads, "bandwidth_bytes_per_s": 2 * COPY_BYTES / copy_s, "gemm_flops_per_s": rates}


def _gemm_flops_per_s(dtype: torch.dtype, side: int) -> float:
    a, b = (torch.rand(side, side).to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    return 2 * side**3 / _best_s(lambda: torch.mm(a, b, out=out))


def _best_s(work: Any) -> float:
    work()
    best = float("inf")
    for _ in range(REPEATS):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best
