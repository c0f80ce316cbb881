"""Attention as products and a softmax of its own. Silent where softmax takes under 5 % of computing.

In a graph: scores of two products, and a softmax between. Silent where the weights themselves are handed back.
"""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.capturing.outline import OutlineNode
from optimizer.diagnosing.base import Evidence, register_rule
from optimizer.diagnosing.graphs.graph_rule import GraphAndTraceRule, Sighting
from optimizer.diagnosing.graphs.view import CASTS, COPIES, PERMUTES, GraphView, at, sources
from optimizer.diagnosing.traces import trace_rule
from optimizer.diagnosing.traces.document import KernelRow, RankTrace
from optimizer.diagnosing.traces.trace_rule import Claim, compute_share, kernels

MIN_SHARE = 0.05
PRODUCTS = frozenset({"matmul", "bmm", "baddbmm", "einsum", "mm"})
SCORED = frozenset({"div", "mul", "add", "sub", "masked_fill", "where", "expand", "unsqueeze", "squeeze"})
MOVED = CASTS | COPIES | PERMUTES | {"view", "reshape", "dropout", "expand", "unsqueeze", "squeeze", "masked_fill"}
MOST_STEPS = 12


@register_rule
class WrittenOutAttention(GraphAndTraceRule):
    name = "written_out_attention"
    threshold = (
        "softmax kernels between batched products take more than 5 % of the computing kernels' time (a proposal)"
    )
    graph_threshold = "one softmax between two products of computed tensors (structure alone: a proposal)"

    def look_at(self, graph: GraphView, evidence: Evidence) -> Sighting | None:
        found = list(_attentions(graph))
        if not found:
            return None
        inner = list({node.name: node for one in found for node in one if node.op not in PRODUCTS}.values())
        softmaxes = [node for node in inner if node.op == "softmax"]
        many = "Attention is" if len(found) == 1 else f"{len(found)} attentions are"
        return Sighting(
            title=f"{many} written out by hand{at(sources(softmaxes))}",
            evidence={
                "attentions": len(found),
                "scores_shapes": list(dict.fromkeys(str(node.shape) for node in softmaxes))[:5],
                "scores_bytes": sum(node.bytes for node in softmaxes),
            },
            nodes=inner,
            sites=[node for one in found for node in one],
            recovers=(0.3, 0.9),
            model="fused attention neither writes nor reads the scores: 30 to 90 % of the time between the products",
            steps=(
                "Call torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=...) in place of products "
                "and softmax.",
                "Pass a causal mask as is_causal=True: a mask in memory keeps some fused kernels away.",
            ),
            structural="medium",
            passes=("fuse_attention", "fuse_operations"),
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
                "sources": trace_rule.sources(rank, "aten::softmax", "aten::_softmax"),
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


def _attentions(graph: GraphView) -> Iterator[list[OutlineNode]]:
    """The nodes of each, from the first product to the second."""
    for softmax in graph.calls("softmax", "_softmax"):
        above, below = _scores(graph, softmax), _weighted(graph, softmax)
        if above and below:
            yield [*above[::-1], softmax, *below]


def _scores(graph: GraphView, softmax: OutlineNode) -> list[OutlineNode]:
    """From the softmax up to the product of queries and keys; empty where there is none."""
    path, node = list[OutlineNode](), softmax
    for _ in range(MOST_STEPS):
        # of several operands the scores are the one that is as large as the result
        large = [one for one in graph.takes(node) if one.elements == node.elements and one.dtype != "bool"]
        before = next((one for one in large if one.op in PRODUCTS | SCORED | MOVED), None)
        if before is None or before.kind != "call":
            return []
        path.append(before)
        if before.op in PRODUCTS:
            computed = not any(graph.is_constant(one) for one in graph.takes(before))
            return path if computed and len(graph.takes(before)) > 1 else []
        node = before
    return []


def _weighted(graph: GraphView, softmax: OutlineNode) -> list[OutlineNode]:
    """From the softmax down to the product with the values; empty where there is none, or the weights are needed."""
    path, node = list[OutlineNode](), softmax
    for _ in range(MOST_STEPS):
        users = graph.users(node)
        if node.name in graph.outputs or len(users) != 1:
            return []
        path.append(users[0])
        if users[0].op in PRODUCTS:
            return path
        if users[0].op not in MOVED:
            return []
        node = users[0]
    return []
