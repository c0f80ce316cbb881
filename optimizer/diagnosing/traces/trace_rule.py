"""What every rule on traces shares: a claim on time that the cause takes, and the pools that the time lies in.

Each stretch of a rank's time lies in one pool: idle time by its cause, exposed communication, kernels by their kind.
Two rules that claim the same pool speak of the same time, and it is counted once (`ranking.py`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal

from optimizer.diagnosing.base import Evidence, Rule
from optimizer.diagnosing.traces.document import Idle, KernelRow, RankTrace
from optimizer.result import Finding, PredictedGain

Severity = Literal["high", "medium", "low", "info"]
# of the whole time; a proposal
HIGH, MEDIUM, LOW = 0.10, 0.03, 0.005
# no remedy gives back all of what it is about; and no interval reaches beyond a time of nothing
MOST_RECOVERED = 0.95


@dataclass(frozen=True)
class Claim:
    """`takes`: milliseconds of each pool that the cause takes. `recovers`: least and most of that, as shares, that
    mending it gives back; `model` says why so. `severity` only where no time tells it."""

    title: str
    evidence: Mapping[str, Any]
    steps: Sequence[str]
    takes: Mapping[str, float] = field(default_factory=dict)
    recovers: tuple[float, float] = (0.0, 0.0)
    model: str = ""
    severity: Severity | None = None

    @property
    def cost_ms(self) -> float:
        return sum(self.takes.values())

    def recovered_ms(self, left: Mapping[str, float] | None = None) -> tuple[float, float]:
        """Least and most. `left`: what no other claim has had yet, by pool."""
        taken = sum(min(ms, left.get(pool, 0.0)) if left is not None else ms for pool, ms in self.takes.items())
        return taken * self.recovers[0], taken * self.recovers[1]


class TraceRule(Rule):
    """One cause in the trace of a rank. `threshold`: from where on it is a finding, with the source in brackets."""

    threshold: str

    @abstractmethod
    def look(self, rank: RankTrace) -> Claim | None: ...

    def claims(self, ranks: Sequence[RankTrace]) -> Iterator[tuple[RankTrace, Claim]]:
        for rank in ranks:
            claim = self.look(rank)
            if claim is not None:
                yield rank, claim

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        for rank, claim in self.claims(evidence.traces):
            yield finding(self, rank, claim)


class GpuRule(TraceRule):
    """A cause that only a trace with a GPU's kernels can show."""

    def claims(self, ranks: Sequence[RankTrace]) -> Iterator[tuple[RankTrace, Claim]]:
        yield from super().claims([rank for rank in ranks if rank.has_gpu])


def pools(rank: RankTrace) -> dict[str, float]:
    """Milliseconds in each pool. Of kernels: what the timeline had of them; where they overlap, each its part."""
    found = {f"idle: {cause.removesuffix('_ms')}": getattr(rank.idle, cause) for cause in Idle.model_fields}
    found["exposed communication"] = rank.exposed_ms
    for row in rank.kernel_rows:
        if row.kind != "communication":
            pool = f"kernels: {row.kind}"
            found[pool] = found.get(pool, 0.0) + row.total_ms * _on_timeline(rank)
    return found


def _on_timeline(rank: RankTrace) -> float:
    """What share of the summed time of kernels and copies the timeline took: streams work side by side."""
    summed = sum(row.total_ms for row in rank.kernel_rows if row.kind != "communication")
    return min(1.0, (rank.busy_ms - rank.exposed_ms) / summed) if summed else 0.0


def kernels(
    rank: RankTrace,
    wanted: Callable[[KernelRow], bool],
    part: float = 1.0,
    time_ms: Callable[[KernelRow], float] = attrgetter("total_ms"),
) -> dict[str, float]:
    """What the wanted kernels take of each pool; `part` of their time."""
    takes: dict[str, float] = {}
    for row in rank.kernel_rows:
        if row.kind != "communication" and wanted(row):
            pool = f"kernels: {row.kind}"
            takes[pool] = takes.get(pool, 0.0) + time_ms(row) * _on_timeline(rank) * part
    return takes


def compute_ms(rank: RankTrace) -> float:
    """Summed time of the kernels that compute: of all but the collectives'."""
    return sum(row.total_ms for row in rank.kernel_rows if row.kind not in ("communication", "memcpy", "memset"))


def compute_share(rank: RankTrace, wanted: Callable[[KernelRow], bool]) -> float:
    """What share of the computing kernels' time the wanted ones take."""
    whole = compute_ms(rank)
    return sum(row.total_ms for row in rank.kernel_rows if wanted(row)) / whole if whole else 0.0


def costliest(rank: RankTrace, wanted: Callable[[KernelRow], bool], count: int = 5) -> dict[str, float]:
    """Names and milliseconds, for evidence."""
    found = [row for row in rank.kernel_rows if wanted(row)]
    return {row.name[:120]: round(row.total_ms, 3) for row in sorted(found, key=lambda row: -row.total_ms)[:count]}


def sources(rank: RankTrace, *operations: str, count: int = 5) -> dict[str, int]:
    """Lines of the user's code and how often these operations were called there; empty where no stacks were kept."""
    found: dict[str, int] = {}
    for row in rank.operation_rows:
        if row.name in operations:
            for line, calls in row.sources.items():
                found[line] = found.get(line, 0) + calls
    return dict(sorted(found.items(), key=lambda one: -one[1])[:count])


def waiting_for_launches(rank: RankTrace, part: float) -> dict[str, float]:
    """Of the idle time that launches and operations of the host cause, the part that so many of them cause."""
    return {pool: ms * min(1.0, part) for pool, ms in idle(rank, "launching", "host_operations").items()}


def idle(rank: RankTrace, *causes: str) -> dict[str, float]:
    """`data_loading`, `synchronization`, ... as pools."""
    return {f"idle: {cause}": getattr(rank.idle, f"{cause}_ms") for cause in causes}


def finding(rule: TraceRule, rank: RankTrace, claim: Claim, counted_share: float | None = None) -> Finding:
    cost_share = claim.cost_ms / rank.span_ms if rank.span_ms else 0.0
    low, high = claim.recovered_ms()
    gain = None
    if rank.span_ms and high > 0:
        gain = PredictedGain(low=_speedup(low, rank), high=_speedup(high, rank), model=claim.model)
    return Finding(
        rule=rule.name,
        severity=claim.severity or severity(cost_share),
        title=claim.title,
        evidence=dict(claim.evidence),
        remedy=" ".join(claim.steps),
        threshold=rule.threshold,
        steps=list(claim.steps),
        cost_ms=round(claim.cost_ms, 3) if claim.takes else None,
        cost_share=round(cost_share, 4) if claim.takes else None,
        takes_ms={pool: round(ms, 3) for pool, ms in claim.takes.items()},
        gain=gain,
        counted_share=counted_share,
    )


def _speedup(recovered_ms: float, rank: RankTrace) -> float:
    recovered = min(recovered_ms, MOST_RECOVERED * rank.span_ms)
    return round(rank.span_ms / (rank.span_ms - recovered), 4)


def severity(cost_share: float) -> Severity:
    if cost_share >= HIGH:
        return "high"
    return "medium" if cost_share >= MEDIUM else "low" if cost_share >= LOW else "info"
