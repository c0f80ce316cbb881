"""Every shape is static: the model serves one batch size only. Silent when a dimension is dynamic."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.diagnosing.base import Evidence, Rule, register_rule
from optimizer.result import Finding


@register_rule
class BakedBatch(Rule):
    name = "baked_batch"

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        if evidence.dynamic_batch:
            return
        yield Finding(
            rule=self.name,
            severity="low",
            title="All shapes are static: an artifact of this model answers one batch size only",
            evidence={"notes": list(evidence.notes)},
            remedy="Declare dims in the workload, and take sizes from x.shape in forward instead of constants.",
        )
