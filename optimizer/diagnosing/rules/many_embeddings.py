"""A lookup of its own for each of many embedding tables. Silent up to 8 a step."""

from __future__ import annotations

import re

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import KernelRow, RankTrace
from optimizer.diagnosing.traces.trace_rule import (
    LOW,
    Claim,
    GpuRule,
    costliest,
    kernels,
    sources,
    waiting_for_launches,
)

MIN_PER_STEP = 8
LOOKUPS = ("aten::embedding", "aten::_embedding_bag", "aten::_embedding_bag_forward_only")
LOOKED_UP = re.compile(r"embedding|indexSelect|index_select|gather", re.IGNORECASE)


@register_rule
class ManyEmbeddings(GpuRule):
    name = "many_embeddings"
    threshold = (
        "more than 8 embedding lookups a step (TorchRec's README: one for all is 3 times as fast at 10 "
        "tables, 10 times at 100)"
    )

    def look(self, rank: RankTrace) -> Claim | None:
        calls = rank.calls_of(*LOOKUPS)
        if calls / rank.per_step <= MIN_PER_STEP:
            return None
        takes = kernels(rank, _looks_up)
        takes |= waiting_for_launches(rank, sum(row.calls for row in rank.kernel_rows if _looks_up(row)) / rank.kernels)
        if sum(takes.values()) < LOW * rank.span_ms:
            return None
        return Claim(
            title=f"{calls / rank.per_step:.0f} embedding lookups a step, each a kernel of its own",
            evidence={
                "lookups_per_step": round(calls / rank.per_step, 1),
                "sources": sources(rank, *LOOKUPS),
                "kernels_ms": costliest(rank, _looks_up),
            },
            takes=takes,
            recovers=(0.5, 0.9),
            model="one batched lookup in place of tens: half to 90 % of their kernels and launches",
            steps=(
                "Keep the tables in one: torchrec.EmbeddingBagCollection, or FBGEMM's SplitTableBatchedEmbeddingBags.",
                "In inference, the pass merge_embedding_tables merges tables of one width.",
            ),
        )


def _looks_up(row: KernelRow) -> bool:
    return row.kind in ("embedding", "index") and bool(LOOKED_UP.search(row.name))
