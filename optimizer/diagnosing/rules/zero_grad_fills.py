"""Gradients are filled with zeros each step. Silent where fills take under 3 % of computing."""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import KernelRow, RankTrace
from optimizer.diagnosing.traces.trace_rule import Claim, GpuRule, compute_share, kernels

MIN_SHARE = 0.03


@register_rule
class ZeroGradFills(GpuRule):
    name = "zero_grad_fills"
    threshold = "fills and memsets take more than 3 % of the computing kernels' time (a proposal)"

    def look(self, rank: RankTrace) -> Claim | None:
        share = compute_share(rank, _fills)
        if share <= MIN_SHARE:
            return None
        return Claim(
            title=f"Filling memory with constants takes {share:.1%} of the computing time",
            evidence={
                "fill_share_of_compute": round(share, 4),
                "zero_per_step": round(rank.calls_of("aten::zero_") / rank.per_step, 1),
                "fill_per_step": round(rank.calls_of("aten::fill_") / rank.per_step, 1),
                "memset_per_step": round(
                    sum(r.calls for r in rank.kernel_rows if r.kind == "memset") / rank.per_step, 1
                ),
            },
            takes=kernels(rank, _fills),
            recovers=(0.5, 0.95),
            model="gradients that are dropped are not filled: half to 95 % of the fills",
            steps=(
                "Call optimizer.zero_grad(set_to_none=True), the default since torch 2.0.",
                "Allocate with torch.empty what is written whole.",
            ),
        )


def _fills(row: KernelRow) -> bool:
    return row.kind in ("fill", "memset")
