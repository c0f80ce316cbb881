"""Gradients of embedding tables as whole tables. Silent where none is made, or where it costs nothing."""

from __future__ import annotations

import re

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import KernelRow, RankTrace
from optimizer.diagnosing.traces.trace_rule import LOW, Claim, GpuRule, costliest, kernels

DENSE = ("aten::embedding_dense_backward", "aten::_embedding_bag_dense_backward")
GRADIENT = re.compile(
    r"compute_grad_weight|embedding_backward|embedding_dense|sum_and_scatter|krn_partial|EmbeddingBag.*[Gg]rad"
)


@register_rule
class DenseEmbeddingGradients(GpuRule):
    name = "dense_embedding_gradients"
    threshold = "embedding_dense_backward is called at least once a step and costs 0.5 % of the time (a proposal)"

    def look(self, rank: RankTrace) -> Claim | None:
        calls = rank.calls_of(*DENSE)
        takes = kernels(rank, _is_gradient)
        if calls < rank.per_step or sum(takes.values()) < LOW * rank.span_ms:
            return None
        return Claim(
            title=f"{calls / rank.per_step:.0f} embedding tables a step get a gradient of the whole table",
            evidence={
                "dense_gradients_per_step": round(calls / rank.per_step, 1),
                "kernels_ms": costliest(rank, _is_gradient),
            },
            takes=takes,
            recovers=(0.4, 0.9),
            model="a gradient of the rows that were used, and an optimizer fused with it: 40 to 90 % of these kernels",
            steps=(
                "Use FBGEMM's table batched embeddings with a fused optimizer (torchrec does).",
                "Or nn.Embedding(sparse=True) with torch.optim.SparseAdam or Adagrad.",
            ),
        )


def _is_gradient(row: KernelRow) -> bool:
    return bool(GRADIENT.search(row.name))
