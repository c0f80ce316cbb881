"""The graph holds structure that a pass of ours rewrites, with the user's own lines. Silent for tidying passes."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.diagnosing.base import Evidence, Rule, register_rule
from optimizer.optimizing.planner import TIDYING
from optimizer.result import Finding


@register_rule
class RewritableStructure(Rule):
    name = "rewritable_structure"

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        for rewrite in evidence.rewrites:
            if not rewrite.applied or rewrite.pass_ in TIDYING:
                continue
            places = sorted({site.source for site in rewrite.applied if site.source})
            yield Finding(
                rule=self.name,
                severity="medium",
                title=f"{rewrite.pass_}: {rewrite.applied[0].reason}",
                evidence={"pass": rewrite.pass_, "sites": len(rewrite.applied), "sources": places[:20]},
                remedy=f"The pass {rewrite.pass_} rewrites it; the measurement says whether that pays on this model.",
            )
