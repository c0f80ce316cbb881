"""One rank comes late to the collectives, and all others wait there. Wants the traces of two ranks at least."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.stragglers import waits
from optimizer.diagnosing.traces.trace_rule import Claim, GpuRule

MIN_SHARE = 0.03


@register_rule
class Straggler(GpuRule):
    name = "straggler"
    threshold = (
        "the others wait in collectives for one rank for more than 3 % of the span (idea: "
        "HolisticTraceAnalysis; a proposal)"
    )

    def look(self, rank: RankTrace) -> Claim | None:
        """One rank alone shows none."""
        return None

    def claims(self, ranks: Sequence[RankTrace]) -> Iterator[tuple[RankTrace, Claim]]:
        rows = waits(ranks)
        if not rows:
            return
        latest = max(rows, key=lambda row: row.late_ms)
        waiting = max((row for row in rows if row is not latest), key=lambda row: row.waited_ms)
        rank = next(rank for rank in ranks if rank.name == waiting.trace)
        waited_ms = min(latest.late_ms, waiting.waited_ms, rank.exposed_ms)
        if waited_ms < MIN_SHARE * rank.span_ms:
            return
        who = f"rank {latest.rank}" if latest.rank is not None else latest.trace
        claim = Claim(
            title=f"The others wait for {who} {waited_ms / rank.span_ms:.0%} of the time: a straggler",
            evidence={
                "straggler": who,
                "late_ms": latest.late_ms,
                "last_to_arrive": latest.last_to_arrive,
                "collectives": latest.collectives,
                "waited_ms": {row.trace: row.waited_ms for row in rows},
            },
            takes={"exposed communication": waited_ms},
            recovers=(0.5, 1.0),
            model="what the others waited for it in exposed collectives; ranks in step give back half to all of it",
            steps=(
                "Compare its trace with another rank's: `fuseworks diagnose STRAGGLER --against OTHER`.",
                "Balance the shards of tables and the lengths of sequences over ranks.",
                "Where its kernels are slower too: clocks, temperature and neighbours of that node.",
            ),
        )
        yield rank, claim
