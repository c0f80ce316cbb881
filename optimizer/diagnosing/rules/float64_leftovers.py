"""Kernels in double precision, which GPUs for learning have little of. Silent under 1 % of computing."""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import KernelRow, RankTrace
from optimizer.diagnosing.traces.trace_rule import Claim, GpuRule, compute_share, costliest, kernels

MIN_SHARE = 0.01


@register_rule
class Float64Leftovers(GpuRule):
    name = "float64_leftovers"
    threshold = "kernels in float64 take more than 1 % of the computing kernels' time (a proposal)"

    def look(self, rank: RankTrace) -> Claim | None:
        share = compute_share(rank, _is_double)
        if share <= MIN_SHARE:
            return None
        calls = sorted(rank.doubles.items(), key=lambda one: -one[1])[:5]
        return Claim(
            title=f"Double precision takes {share:.1%} of the computing time",
            evidence={
                "float64_share_of_compute": round(share, 4),
                "operations_with_float64": dict(calls),
                "kernels_ms": costliest(rank, _is_double),
            },
            takes=kernels(rank, _is_double),
            recovers=(0.5, 0.97),
            model="float32 has 2 (A100) to 64 (consumer GPUs) times the peak and half the bytes",
            steps=(
                "Look for numpy arrays and Python floats that became tensors: torch.as_tensor(x, dtype=torch.float32).",
                "Keep double precision for accumulated metrics only, and collect them less often.",
            ),
        )


def _is_double(row: KernelRow) -> bool:
    return "double" in row.marks
