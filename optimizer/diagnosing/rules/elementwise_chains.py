"""Many kernels that read and write whole tensors for an addition or an activation. Silent up to 15 % of computing."""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import KernelRow, RankTrace
from optimizer.diagnosing.traces.trace_rule import Claim, GpuRule, compute_share, costliest, kernels

MIN_SHARE = 0.15


@register_rule
class ElementwiseChains(GpuRule):
    name = "elementwise_chains"
    threshold = 'elementwise kernels take more than 15 % of the computing kernels" time (a proposal; 14 to 17 % seen)'

    def look(self, rank: RankTrace) -> Claim | None:
        share = compute_share(rank, _is_elementwise)
        if share <= MIN_SHARE:
            return None
        calls = sum(row.calls for row in rank.kernel_rows if _is_elementwise(row))
        return Claim(
            title=f"Elementwise kernels take {share:.0%} of the computing time, {calls / rank.per_step:.0f} a step",
            evidence={
                "elementwise_share_of_compute": round(share, 4),
                "kernels_per_step": round(calls / rank.per_step, 1),
                "kernels_ms": costliest(rank, _is_elementwise),
            },
            takes=kernels(rank, _is_elementwise),
            recovers=(0.3, 0.7),
            model="a fused chain reads and writes its tensors once: chains of two to four give back 30 to 70 %",
            steps=(
                "Let torch.compile fuse the chains.",
                "Where it cannot: fused layers (bias with activation, dropout with add, norms) of a kernel library.",
            ),
        )


def _is_elementwise(row: KernelRow) -> bool:
    return row.kind == "elementwise"
