"""The graph holds structure that a pass of ours rewrites, with the user's own lines. Silent for tidying passes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from optimizer.diagnosing.base import Evidence, Rule, register_rule
from optimizer.optimizing.planner import TIDYING
from optimizer.result import Finding, Profile, Rewrite

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
            yield Finding(
                rule=self.name,
                severity="low" if share is not None and share < LITTLE else "medium",
                title=_sentence(rewrite, places, share),
                evidence=facts,
                remedy=f"The pass {rewrite.pass_} rewrites it; the measurement says whether that pays on this model.",
            )


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
