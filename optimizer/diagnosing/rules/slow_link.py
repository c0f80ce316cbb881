"""A rank moves the same bytes more slowly than its peers, even at its best. Wants two ranks at least, and bytes."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from optimizer.diagnosing.base import register_rule
from optimizer.diagnosing.traces.document import CollectiveRow, RankTrace
from optimizer.diagnosing.traces.stragglers import waits
from optimizer.diagnosing.traces.trace_rule import LOW, Claim, GpuRule

MAX_OF_PEERS = 0.8


@register_rule
class SlowLink(GpuRule):
    name = "slow_link"
    threshold = "a rank's best bandwidth of a collective is below 80 % of the peers' median (a proposal)"

    def look(self, rank: RankTrace) -> Claim | None:
        """One rank alone shows none."""
        return None

    def claims(self, ranks: Sequence[RankTrace]) -> Iterator[tuple[RankTrace, Claim]]:
        by_size = [{(r.kind, r.bytes): r for r in rank.collective_rows if r.bytes and r.shortest_us} for rank in ranks]
        for at, (rank, row) in enumerate(zip(ranks, waits(ranks), strict=False)):
            slow = []
            for key, own in by_size[at].items():
                peers = [rows[key].shortest_us for other, rows in enumerate(by_size) if other != at and key in rows]
                # the shortest call is the one that waited least for others
                if peers and statistics.median(peers) < MAX_OF_PEERS * own.shortest_us:
                    slow.append((own, statistics.median(peers)))
            lost_ms = min(row.slow_ms, rank.exposed_ms)
            if slow and lost_ms >= LOW * rank.span_ms:
                yield rank, _claim(rank, *max(slow, key=lambda one: one[0].total_ms), lost_ms)


def _claim(rank: RankTrace, row: CollectiveRow, peers_us: float, lost_ms: float) -> Claim:
    who = f"rank {rank.rank}" if rank.rank is not None else rank.name
    return Claim(
        title=f"Collectives of {who} run at {peers_us / row.shortest_us:.0%} of its peers' bandwidth",
        evidence={
            "collective": row.kind,
            "bytes": row.bytes,
            "best_bytes_per_s": round(row.bytes / row.shortest_us * 1e6),
            "peers_best_bytes_per_s": round(row.bytes / peers_us * 1e6),
            "slow_ms": round(lost_ms, 3),
        },
        takes={"exposed communication": lost_ms},
        recovers=(0.6, 1.0),
        model="the exposed time beyond that of the fastest rank; mended, 60 % to all of it is gone",
        steps=(
            "Look at the topology (nvidia-smi topo -m) and at NCCL's choice (NCCL_DEBUG=INFO).",
            "Test the link by itself with nccl-tests on the same nodes.",
        ),
    )
