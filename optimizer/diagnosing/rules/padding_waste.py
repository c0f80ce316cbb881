"""Much of what is computed is padding: sequences are far shorter than the size that they are filled up to.

In a graph: from lengths that are compared with positions, and from 0/1 masks with a row of positions for each sample,
as the workload draws them or as they were captured. In a trace: from the lengths that operations which pad were given.
Silent from 70 % filled on, and where nothing tells a length.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from optimizer import inputs
from optimizer.capturing.outline import OutlineNode
from optimizer.diagnosing.base import Evidence, register_rule
from optimizer.diagnosing.graphs.graph_rule import GraphAndTraceRule, Sighting
from optimizer.diagnosing.graphs.view import CASTS, COPIES, GraphView, at, sources
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.trace_rule import LOW, Claim, compute_ms, kernels
from optimizer.diagnosing.traces.trace_rule import sources as sources_of
from optimizer.errors import FuseworksError
from optimizer.spec import InputSpec

MOST_FILLED = 0.7
LEAST_PADDED = 8  # positions: less is no sequence
COMPARES = {"lt", "le", "gt", "ge"}
FLIPS = {"logical_not", "bitwise_not"}
ATTENTION = "scaled_dot_product_attention"
SMALL = COPIES | CASTS | {"unsqueeze", "view", "reshape", "expand", "clamp", "clamp_max", "clamp_min", "add", "sub"}
MOST_STEPS, MOST_SETS = 8, 4
NOT_COMPUTING = ("communication", "memcpy", "memset")
STEPS = (
    "Put samples of like length into one batch, and pad to the longest of them.",
    "Or keep the sequences behind one another with offsets (torch.nested, jagged tensors): no padding.",
    "Or cut at a length that few samples reach.",
)


@dataclass(frozen=True)
class _Padding:
    """`size`: positions of which `filled` hold something; `by`: the input that says so; `node`: where it is used."""

    by: str
    node: OutlineNode
    size: int
    filled: float


@register_rule
class PaddingWaste(GraphAndTraceRule):
    name = "padding_waste"
    threshold = graph_threshold = "the mean length is under 70 % of the padded one (a proposal)"

    def look_at(self, graph: GraphView, evidence: Evidence) -> Sighting | None:
        found = [one for one in _paddings(graph, evidence) if one.filled < MOST_FILLED]
        if not found:
            return None
        worst = min(found, key=lambda one: (one.filled, one.by))
        padded = [node for node in graph.calls() if worst.size in node.sizes and node.dtype is not None]
        wasted = 1 - worst.filled
        return Sighting(
            title=f"{wasted:.0%} of {worst.size} positions are padding, as {worst.by} says{at(sources([worst.node]))}",
            evidence={
                "filled": {one.by: round(one.filled, 4) for one in found},
                "padded_size": worst.size,
                "told_by": "captured samples" if evidence.samples is not None else "the workload's values",
                "operations_on_padding": len(padded),
            },
            nodes=[node for node in padded if not node.view],
            sites=[worst.node],
            part=wasted,
            recovers=(0.3, 1.0),
            model=f"{wasted:.0%} of what computes on positions is padding; without it 30 % to all of that is saved",
            steps=STEPS,
            structural="medium",
        )

    def look(self, rank: RankTrace) -> Claim | None:
        positions = sum(row.positions for row in rank.padding_rows)
        filled = sum(row.filled for row in rank.padding_rows) / positions if positions else 1.0
        if filled >= MOST_FILLED:
            return None
        wasted, whole = 1 - filled, compute_ms(rank)
        on_padding_ms = sum(
            row.gpu_ms * min(1.0, rank.on_padding.get(row.name, 0) / row.calls) for row in rank.operation_rows
        )
        share = min(1.0, on_padding_ms / whole) if whole else 0.0
        takes = kernels(rank, lambda row: row.kind not in NOT_COMPUTING, share * wasted)
        if sum(takes.values()) < LOW * rank.span_ms:
            return None
        return Claim(
            title=f"{wasted:.0%} of the positions of padded sequences are padding",
            evidence={
                "filled_share": round(filled, 4),
                "padded_by_per_step": {row.operation: round(row.calls / rank.per_step, 2) for row in rank.padding_rows},
                "on_padding_share_of_compute": round(share, 4),
                "operations_on_padding": dict(sorted(rank.on_padding.items(), key=lambda one: -one[1])[:10]),
                "sources": sources_of(rank, *(row.operation for row in rank.padding_rows)),
            },
            takes=takes,
            recovers=(0.3, 1.0),
            model=f"{wasted:.0%} of what computes on padded sizes (calls of an operation share its time evenly); "
            "without padding 30 % to all of that is saved",
            steps=STEPS,
        )


def _paddings(graph: GraphView, evidence: Evidence) -> Iterator[_Padding]:
    workload = evidence.workload
    for spec in workload.inputs if workload is not None else ():
        node = next((one for one in graph.nodes if one.kind == "input" and one.name == spec.name), None)
        if node is None:
            continue
        compared = _compared(graph, node) if spec.dtype.startswith(("int", "uint")) else None
        if compared is not None and (mean := _mean(evidence, spec)) is not None:
            yield _Padding(spec.name, compared[0], compared[1], min(1.0, max(0.0, mean / compared[1])))
        elif len(node.sizes) == 2 and (node.sizes[1] or 0) >= LEAST_PADDED:
            yield from _masked(graph, node, evidence, spec)


def _compared(graph: GraphView, lengths: OutlineNode) -> tuple[OutlineNode, int] | None:
    """(the comparison of lengths with positions, how many positions)."""
    for node in _reached(graph, lengths):
        if node.op not in COMPARES:
            continue
        for other in graph.takes(node):
            positions = graph.up(other, lambda one: one.view or one.op in SMALL)
            counted = positions.op == "arange" or (positions.kind == "weight" and len(positions.sizes) >= 1)
            size = positions.sizes[-1] if positions.sizes else None
            if counted and size is not None and size >= LEAST_PADDED:
                return node, size
    return None


def _reached(graph: GraphView, start: OutlineNode) -> Iterator[OutlineNode]:
    """What an input goes into, through views, casts and little sums."""
    edge, seen = [start], {start.name}
    for _ in range(MOST_STEPS):
        users = [user for node in edge for user in graph.users(node) if user.name not in seen]
        seen |= {user.name for user in users}
        yield from users
        edge = [user for user in users if user.view or user.op in SMALL]


def _masked(graph: GraphView, mask: OutlineNode, evidence: Evidence, spec: InputSpec) -> Iterator[_Padding]:
    used = _kept_where(graph, mask)
    if used is None or spec.values is None or (spec.values.bernoulli is None and evidence.samples is None):
        return
    mean = _mean(evidence, spec)
    size = mask.sizes[1]
    if mean is None or size is None or not 0 <= mean <= 1:
        return
    node, kept = used
    yield _Padding(spec.name, node, size, mean if kept else 1 - mean)


def _kept_where(graph: GraphView, mask: OutlineNode) -> tuple[OutlineNode, bool] | None:
    """(where the mask is used, whether what it is true for is kept)."""
    node, kept = mask, True
    for _ in range(MOST_STEPS):
        users = graph.users(node)
        for user in users:
            if user.op == "masked_fill":
                return user, not kept
            # a product with something of the mask's own rank chooses among features, not among positions
            if user.op == ATTENTION or (user.op == "mul" and len(user.sizes) > len(mask.sizes)):
                return user, kept
            if user.op == "where" and len(user.takes) > 1 and user.takes[0] == node.name:
                first = graph.takes(user)[1]
                return user, kept if first.elements == user.elements else not kept
        following = next((user for user in users if user.view or user.op in SMALL | FLIPS or _is_zero(user)), None)
        if following is None:
            return None
        kept ^= following.op in FLIPS or _is_zero(following)
        node = following
    return None


def _is_zero(node: OutlineNode) -> bool:
    return node.op == "eq" and node.given.get("other") == 0


def _mean(evidence: Evidence, spec: InputSpec) -> float | None:
    """Of the captured samples, else of what the workload draws."""
    workload, samples = evidence.workload, evidence.samples
    assert workload is not None
    place = [one.name for one in workload.inputs].index(spec.name)
    if samples is not None:
        return float(np.mean(samples.arrays[place]))
    alone = workload.model_copy(update={"inputs": [spec], "contracts": []})
    rng = np.random.default_rng(0)
    try:
        sets = [inputs.draw(alone, workload.sizes(), rng)[0] for _ in range(MOST_SETS)]
    except FuseworksError:  # inputs that cannot be drawn are told by the run itself
        return None
    return float(np.mean([array.mean() for array in sets]))
