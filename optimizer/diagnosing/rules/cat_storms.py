"""Tensors are joined over and over. Silent where that takes under 5 % of computing, and is not often and costly."""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import KernelRow, RankTrace
from optimizer.diagnosing.traces.trace_rule import LOW, Claim, GpuRule, compute_share, kernels, sources

MIN_SHARE, MIN_PER_STEP = 0.05, 10


@register_rule
class CatStorms(GpuRule):
    name = "cat_storms"
    threshold = (
        'joining tensors takes more than 5 % of the computing kernels" time, or is done more than 10 times a '
        "step (a proposal)"
    )

    def look(self, rank: RankTrace) -> Claim | None:
        share = compute_share(rank, _joins)
        calls = sum(row.calls for row in rank.kernel_rows if _joins(row)) / rank.per_step
        takes = kernels(rank, _joins)
        if share <= MIN_SHARE and (calls <= MIN_PER_STEP or sum(takes.values()) < LOW * rank.span_ms):
            return None
        return Claim(
            title=f"{calls:.0f} kernels a step join tensors: {share:.1%} of the computing time",
            evidence={
                "cat_share_of_compute": round(share, 4),
                "sources": sources(rank, "aten::cat"),
                "cat_kernels_per_step": round(calls, 1),
                "cat_per_step": round(rank.calls_of("aten::cat") / rank.per_step, 1),
                "split_per_step": round(rank.calls_of("aten::split", "aten::split_with_sizes") / rank.per_step, 1),
            },
            takes=takes,
            recovers=(0.4, 0.8),
            model="results written straight into their place in one tensor need no copy: 40 to 80 % of these kernels",
            steps=(
                "Allocate the joined tensor once and let each part write into its slice (out=).",
                "Merge parallel layers, so that their results are joined from the start.",
                "torch.compile undoes pairs of split and cat.",
            ),
        )


def _joins(row: KernelRow) -> bool:
    return row.kind == "cat"
