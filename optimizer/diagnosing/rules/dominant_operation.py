"""One kind of operation takes most of the time. Silent when no kind reaches 30 %."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from optimizer.diagnosing.base import Evidence, Rule, register_rule
from optimizer.result import Finding, Operation

MIN_SHARE = 0.3


@register_rule
class DominantOperation(Rule):
    name = "dominant_operation"

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        if evidence.profile is None:
            return
        kinds: dict[str, list[Operation]] = defaultdict(list)
        for operation in evidence.profile.operations:
            kinds[operation.op].append(operation)
        for op, rows in kinds.items():
            share = sum(row.share for row in rows)
            if share < MIN_SHARE:
                continue
            top = max(rows, key=lambda row: row.self_ms)
            attained = [row.attainable_share for row in rows if row.attainable_share is not None]
            evidence_fields = {
                "op": op,
                "share": round(share, 4),
                "self_ms": round(sum(row.self_ms for row in rows), 4),
                "calls": sum(row.calls for row in rows),
                "module": top.module,
                "source": top.source,
            }
            if attained:
                evidence_fields["attainable_share"] = round(max(attained), 4)
            where = top.source or top.module
            yield Finding(
                rule=self.name,
                severity="info",
                title=f"{op} takes {share:.0%} of the time" + (f", most of it at {where}" if where else ""),
                evidence=evidence_fields,
                remedy="Look here first: a rewrite that shrinks this operation gains most.",
            )
