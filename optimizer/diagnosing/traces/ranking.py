"""Findings of a job's traces, ranked by the time that mending gives back; time that two causes share counts once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.diagnosing.base import RULES
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.diagnosing.traces.trace_rule import Claim, TraceRule, finding, pools
from optimizer.result import Finding

WORTH_DOING = 0.02  # of the whole time, all findings together at their best; a proposal


@dataclass(frozen=True)
class Ranked:
    """`recoverable`: least and most of the whole time that all of them give back together."""

    findings: list[Finding]
    recoverable: tuple[float, float]

    @property
    def worth_doing(self) -> bool:
        return self.recoverable[1] >= WORTH_DOING or any(f.severity in ("high", "medium") for f in self.findings)


@dataclass(frozen=True)
class _Found:
    rule: TraceRule
    rank: RankTrace
    claim: Claim
    ranks: int

    @property
    def middle(self) -> float:
        low, high = self.claim.recovered_ms()
        return (low + high) / 2 / self.rank.span_ms if self.rank.span_ms else 0.0


def ranked(traces: Sequence[RankTrace]) -> Ranked:
    """One finding a rule: of the rank where it costs most."""
    found = [one for rule in RULES if isinstance(rule, TraceRule) for one in _worst(rule, traces)]
    found.sort(key=lambda one: (-one.middle, -one.claim.cost_ms, one.rule.name))
    used: Counter[str] = Counter()
    findings, least, most = [], 0.0, 0.0
    for one in found:
        span = one.rank.span_ms or 1.0
        left = {pool: max(0.0, ms - used[pool] * span) for pool, ms in pools(one.rank).items()}
        low, high = one.claim.recovered_ms(left)
        least, most = least + low / span, most + high / span
        for pool, ms in one.claim.takes.items():
            # what a remedy leaves is still there for the next one
            used[pool] += min(ms, left.get(pool, 0.0)) * one.claim.recovers[1] / span  # type: ignore[assignment]
        told = finding(one.rule, one.rank, one.claim, counted_share=round((low + high) / 2 / span, 4))
        if len(traces) > 1:
            told.evidence |= {"rank": one.rank.rank, "trace": one.rank.name, "ranks_with_it": one.ranks}
        findings.append(told)
    return Ranked(findings, (round(min(least, 1.0), 4), round(min(most, 1.0), 4)))


def _worst(rule: TraceRule, traces: Sequence[RankTrace]) -> list[_Found]:
    claims = list(rule.claims(traces))
    if not claims:
        return []
    rank, claim = max(claims, key=lambda one: one[1].cost_ms / (one[0].span_ms or 1.0))
    return [_Found(rule, rank, claim, len(claims))]
