"""Attention as products and a softmax of its own. Silent where softmax takes under 5 % of computing."""

from __future__ import annotations

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import KernelRow, RankTrace
from optimizer.diagnosing.traces.trace_rule import Claim, GpuRule, compute_share, kernels, sources

MIN_SHARE = 0.05


@register_rule
class WrittenOutAttention(GpuRule):
    name = "written_out_attention"
    threshold = (
        "softmax kernels between batched products take more than 5 % of the computing kernels' time (a proposal)"
    )

    def look(self, rank: RankTrace) -> Claim | None:
        share = compute_share(rank, _is_softmax)
        products = rank.calls_of("aten::bmm", "aten::baddbmm")
        if share <= MIN_SHARE or not products:
            return None
        return Claim(
            title=f"Attention is written out: its softmax alone takes {share:.0%} of the computing time",
            evidence={
                "softmax_share_of_compute": round(share, 4),
                "sources": sources(rank, "aten::softmax", "aten::_softmax"),
                "softmax_per_step": round(rank.calls_of("aten::softmax", "aten::_softmax") / rank.per_step, 1),
                "batched_products_per_step": round(products / rank.per_step, 1),
                "fused_attention_ms": round(rank.kind_ms("attention"), 3),
            },
            takes=kernels(rank, _is_softmax),
            recovers=(0.6, 0.95),
            model="fused attention never writes the scores: 60 to 95 % of the softmax's time; its products gain, too",
            steps=(
                "Call torch.nn.functional.scaled_dot_product_attention(q, k, v) in place of products and softmax.",
                "Pass a causal mask as is_causal=True: a mask in memory keeps some fused kernels away.",
            ),
        )


def _is_softmax(row: KernelRow) -> bool:
    return row.kind == "softmax"
