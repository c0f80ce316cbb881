"""A lookup of its own for each of many embedding tables. Silent up to 8 a step."""

from __future__ import annotations

import re
from collections import Counter

from optimizer.diagnosing.base import Evidence, register_rule
from optimizer.diagnosing.graphs.graph_rule import GraphAndTraceRule, Sighting
from optimizer.diagnosing.graphs.view import GraphView, at
from optimizer.diagnosing.graphs.view import sources as lines
from optimizer.diagnosing.traces.document import KernelRow, RankTrace
from optimizer.diagnosing.traces.trace_rule import (
    LOW,
    Claim,
    costliest,
    kernels,
    sources,
    waiting_for_launches,
)

MIN_PER_STEP = 8
LOOKUPS = ("aten::embedding", "aten::_embedding_bag", "aten::_embedding_bag_forward_only")
LOOKED_UP = re.compile(r"embedding|indexSelect|index_select|gather", re.IGNORECASE)


@register_rule
class ManyEmbeddings(GraphAndTraceRule):
    name = "many_embeddings"
    threshold = (
        "more than 8 embedding lookups a step (TorchRec's README: one for all is 3 times as fast at 10 "
        "tables, 10 times at 100)"
    )
    graph_threshold = threshold.replace("a step", "a call")

    def look_at(self, graph: GraphView, evidence: Evidence) -> Sighting | None:
        lookups = graph.calls("embedding", "embedding_bag", "_embedding_bag")
        if len(lookups) <= MIN_PER_STEP:
            return None
        tables = {table.name: table for node in lookups if (table := graph.first(node)) is not None}
        widths = Counter(node.sizes[-1] for node in lookups if node.sizes)
        return Sighting(
            title=f"{len(lookups)} embedding lookups a call, each an operation of its own{at(lines(lookups))}",
            evidence={
                "lookups": len(lookups),
                "tables": len(tables),
                "lookups_by_width": {str(width): count for width, count in widths.most_common(8)},
                "table_bytes": sum(table.bytes for table in tables.values()),
                "looked_up_bytes": sum(node.bytes for node in lookups),
            },
            nodes=lookups,
            recovers=(0.2, 0.7),
            model="one batched lookup in place of tens saves what each call costs beside its bytes: 20 to 70 % of them",
            steps=(
                "Keep tables of one width in one nn.Embedding, and add each column's first row to its ids.",
                "For training on a GPU: torchrec.EmbeddingBagCollection, or FBGEMM's SplitTableBatchedEmbeddingBags.",
            ),
            structural="medium",
            passes=("merge_embedding_tables",),
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
