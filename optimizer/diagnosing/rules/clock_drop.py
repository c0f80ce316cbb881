"""All products become slower in the course of the trace: the GPU's clock drops, or something else works on it.

Silent in traces of fewer than four steps, and where single kernels are slow: those have causes of their own.
"""

from __future__ import annotations

from itertools import pairwise

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.trace_rule import LOW, Claim, GpuRule, kernels

MIN_STEPS, SLOWER = 4, 1.1
COMPUTING = ("gemm", "convolution", "attention")


@register_rule
class ClockDrop(GpuRule):
    name = "clock_drop"
    threshold = (
        "four fifths of the products take more than 10 % longer in two steps on end than in the fastest quarter of "
        "the steps (idea: the AI core's frequency in Ascend's msprof-analyze; a proposal)"
    )

    def look(self, rank: RankTrace) -> Claim | None:
        paces = rank.paces
        if len(paces) < MIN_STEPS:
            return None
        fast = sorted(paces)[(len(paces) - 1) // 4]
        slow = [pace > SLOWER * fast for pace in paces]
        if not any(one and other for one, other in pairwise(slow)):
            return None
        lost = sum(pace - fast for pace, is_slow in zip(paces, slow, strict=True) if is_slow) / sum(paces)
        takes = kernels(rank, lambda row: row.kind in COMPUTING, lost)
        if sum(takes.values()) < LOW * rank.span_ms:
            return None
        return Claim(
            title=f"In {sum(slow)} of {len(paces)} steps all products are up to {max(paces) / fast - 1:.0%} slower",
            evidence={
                "slow_steps": sum(slow),
                "steps": len(paces),
                "time_over_fastest_quarter": [round(pace / fast, 3) for pace in paces][:100],
                "lost_share_of_products": round(lost, 4),
            },
            takes=takes,
            recovers=(0.5, 1.0),
            model="time of the products beyond the fastest quarter of the steps; a steady clock gives back half to "
            "all of it",
            steps=(
                "Watch clocks, temperature and power while it trains: nvidia-smi -q -d CLOCK,PERFORMANCE,TEMPERATURE "
                "(rocm-smi --showclocks --showtemp).",
                "Mend the cooling or the power limit (nvidia-smi -pl), or fix the clock to what holds (nvidia-smi "
                "-lgc).",
                "See whether another process shares the GPU.",
            ),
        )
