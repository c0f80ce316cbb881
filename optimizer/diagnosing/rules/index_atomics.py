"""Gradients and sums by index, by atomics or by sorting. Silent up to 5 % of computing."""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import KernelRow, RankTrace
from optimizer.diagnosing.traces.trace_rule import Claim, GpuRule, compute_share, costliest, kernels, sources

MIN_SHARE = 0.05


@register_rule
class IndexAtomics(GpuRule):
    name = "index_atomics"
    threshold = (
        "index_put, index_add and the sorting in front of them take more than 5 % of the computing kernels' "
        "time (a proposal)"
    )

    def look(self, rank: RankTrace) -> Claim | None:
        share = compute_share(rank, _by_index)
        if share <= MIN_SHARE:
            return None
        return Claim(
            title=f"Writing by index takes {share:.0%} of the computing time",
            evidence={
                "by_index_share_of_compute": round(share, 4),
                "sources": sources(rank, "aten::index_put_", "aten::index_add_", "aten::index_add"),
                "index_put_per_step": round(
                    rank.calls_of("aten::index_put_", "aten::_index_put_impl_") / rank.per_step, 1
                ),
                "index_add_per_step": round(rank.calls_of("aten::index_add_", "aten::index_add") / rank.per_step, 1),
                "kernels_ms": costliest(rank, _by_index),
            },
            takes=kernels(rank, _by_index),
            recovers=(0.3, 0.8),
            model="a reduction over sorted segments writes each row once: 30 to 80 % of these kernels",
            steps=(
                "Sort or deduplicate the indices once and reduce over segments (torch.segment_reduce, FBGEMM).",
                "Replace x[index] with torch.index_select or gather: their gradients need no sorting.",
            ),
        )


def _by_index(row: KernelRow) -> bool:
    return "indexing_backward" in row.marks
