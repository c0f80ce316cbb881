"""The graph holds structure that a pass of ours rewrites, with the user's own lines. Silent for tidying passes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from optimizer.diagnosing.base import Evidence, Rule, register_rule
from optimizer.diagnosing.graphs.counting import GraphFinding
from optimizer.diagnosing.traces.trace_rule import MOST_RECOVERED
from optimizer.optimizing.pass_targets import matched_only
from optimizer.optimizing.planner import TIDYING
from optimizer.result import Finding, PredictedGain, Profile, Rewrite

MOST_LINES_TOLD = 3
LITTLE = 0.01  # of the time: what is spent on less is no finding of weight, however often it stands there
# What stands in the model, in the words of whoever wrote it; what becomes of it is the pass's own description.
WRITTEN = {
    "batch_weighted_sums": "Several weighted sums over one stack of vectors, each by itself",
    "deduplicate_rows": "What repeats over the batch by the workload's promise, computed for every row",
    "flatten_gathers": "A gather by constant indices over several dimensions",
    "fold_batch_norm": "Batch norm as a layer of its own behind a convolution or a linear layer",
    "fuse_attention": "Attention written out by hand",
    "fuse_operations": "Operations side by side that one kernel of the library computes",
    "last_token_pushdown": "Layers that run for every position of a sequence of which one is used",
    "merge_embedding_tables": "A lookup for each of several embedding tables of one width",
    "merge_parallel_linears": "Several linear layers side by side on the same input",
    "skip_masked_scores": "Pointwise attention that computes scores which its constant mask always hides",
    "skip_padded_rows": "Layers that also run over the padding of sequences, whose results a mask overwrites",
    "split_batched_linears": "A batched product with constant weights, one for each lane",
    "split_target_attention": "A linear layer over the joined [q, k, q-k, q*k] of target attention",
}
# Least and most of the time at those lines that the pass gives back, before anybody measured: proposals, which
# `calibration.json` corrects. The passes of the kernel library have none for a processor, where nothing is launched.
RECOVERS = {
    "batch_weighted_sums": (0.2, 0.7),
    "deduplicate_rows": (0.5, 0.95),
    "flatten_gathers": (0.2, 0.7),
    "fold_batch_norm": (0.0, 0.1),  # the line that calls the layers is the convolution's, too
    "fuse_attention": (0.1, 0.6),
    "last_token_pushdown": (0.1, 0.6),  # not what mixes the positions, nor what comes before
    "merge_embedding_tables": (0.1, 0.6),
    "merge_parallel_linears": (0.0, 0.1),
    "skip_masked_scores": (0.1, 0.5),
    "skip_padded_rows": (0.0, 0.4),
    "split_batched_linears": (0.0, 0.4),
    "split_target_attention": (0.4, 0.75),
}
UNKNOWN = (0.0, 0.5)
MODEL = "{low:.0%} to {high:.0%} of the time at these lines, a proposal for this pass"


@register_rule
class RewritableStructure(Rule):
    name = "rewritable_structure"

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        for rewrite in evidence.rewrites:
            if not rewrite.applied or rewrite.pass_ in TIDYING:
                continue
            # by file, then by number: line 9 comes before line 31
            places = sorted({site.source for site in rewrite.applied if site.source}, key=_by_line)
            facts: dict[str, Any] = {"pass": rewrite.pass_, "sites": len(rewrite.applied), "sources": places[:20]}
            share = _share_at(evidence.profile, places)
            if share is not None:
                facts["share_of_time"] = round(share, 4)
            possible = rewrite.pass_ not in matched_only(evidence.target)
            recovers = RECOVERS.get(rewrite.pass_, UNKNOWN)
            finding = GraphFinding(
                rule=self.name,
                severity="low" if share is not None and share < LITTLE else "medium",
                title=_sentence(rewrite, places, share),
                evidence=facts,
                remedy=f"The pass {rewrite.pass_} rewrites it; the measurement says whether that pays on this model.",
                mended_by=[{"pass": rewrite.pass_}] if possible else [],
                cost_share=round(share, 4) if share is not None else None,
                cost_ms=_cost_ms(evidence.profile, share),
                gain=_gain(share, recovers) if possible else None,
            )
            at_lines = [node for node in evidence.graph.calls() if node.source in places] if evidence.graph else []
            yield finding.claiming(at_lines, 1.0, recovers if possible else (0.0, 0.0))


def _gain(share: float | None, recovers: tuple[float, float]) -> PredictedGain | None:
    if not share:
        return None
    low, high = (1 / (1 - min(part * share, MOST_RECOVERED)) for part in recovers)
    return PredictedGain(low=round(low, 4), high=round(high, 4), model=MODEL.format(low=recovers[0], high=recovers[1]))


def _cost_ms(profile: Profile | None, share: float | None) -> float | None:
    return round(share * profile.total_ms, 4) if profile is not None and share is not None else None


def _sentence(rewrite: Rewrite, places: list[str], share: float | None) -> str:
    what = WRITTEN.get(rewrite.pass_, f"Structure that {rewrite.pass_} rewrites")
    count = len(rewrite.applied)
    text = what + (", once" if count == 1 else f", {count} times")
    if places:
        more = len(places) - MOST_LINES_TOLD
        text += f", at {', '.join(places[:MOST_LINES_TOLD])}" + (f" and {more} more" if more > 0 else "")
    if share is not None:
        text += f"; {share:.0%} of the time goes there"
    return text


def _share_at(profile: Profile | None, places: Collection[str]) -> float | None:
    """None where the profile knows no lines, or none of these."""
    if profile is None:
        return None
    shares = [row.share for row in profile.operations if row.source in places]
    return min(sum(shares), 1.0) if shares else None


def _by_line(source: str) -> tuple[str, int]:
    file, _, line = source.rpartition(":")
    return file, int(line) if line.isdigit() else 0
