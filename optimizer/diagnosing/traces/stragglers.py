"""Ranks beside each other in the same collectives: who comes last and lets the others wait, and who is slow on the way.

Of a rank that arrives last a collective is the shortest, and it ends with the others'. Where a collective begins
together and ends apart, the longer one was slow itself. Two ranks' kernels of one collective begin or end at one time;
where the clocks of two ranks cannot be compared, so that none do, they are matched by their order instead, and what is
longer has waited.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from optimizer.diagnosing.traces.document import Collective, RankTrace

# two ends of one collective, on clocks of two hosts: seen are 0.2 ms of 64
TOGETHER_US, TOGETHER_SHARE = 100.0, 0.02
NEAR = 64  # of one kind, how many are looked at ahead
Moment = tuple[Collective, ...]


class RankWait(BaseModel):
    """Of the collectives that all ranks took part in."""

    model_config = ConfigDict(extra="forbid")

    trace: str
    rank: int | None
    collectives: int
    in_collectives_ms: float
    waited_ms: float = Field(default=0.0, description="beyond the rank that arrived last")
    last_to_arrive: int = 0
    late_ms: float = Field(default=0.0, description="what the others waited for this one (median over them)")
    slow_ms: float = Field(default=0.0, description="beyond the fastest, in collectives that began together")


def waits(ranks: Sequence[RankTrace]) -> list[RankWait]:
    """Empty where fewer than two ranks share collectives."""
    if len(ranks) < 2:
        return []
    found = [_by_key(rank) for rank in ranks]
    keys = sorted(set.intersection(*(set(one) for one in found)))
    matched = [moment for key in keys for moment in _together([one[key] for one in found])]
    same_clock = bool(matched)
    matched = matched or [moment for key in keys for moment in _in_order([one[key] for one in found])]
    if not matched:
        return []
    rows = [
        RankWait(
            trace=rank.name,
            rank=rank.rank,
            collectives=len(matched),
            in_collectives_ms=sum(moment[at].duration_us for moment in matched) / 1000,
        )
        for at, rank in enumerate(ranks)
    ]
    for moment in matched:
        _add(moment, rows, same_clock)
    for row in rows:
        for name in ("in_collectives_ms", "waited_ms", "late_ms", "slow_ms"):
            setattr(row, name, round(getattr(row, name), 3))
    return rows


def _in_order(lists: Sequence[list[Collective]]) -> list[Moment]:
    """Nothing where a kernel ran a different number of times on two ranks: a capture that began elsewhere."""
    return list(zip(*lists, strict=True)) if len({len(one) for one in lists}) == 1 else []


def _together(lists: Sequence[list[Collective]]) -> list[Moment]:
    """Of each collective of the first rank those of the others that begin or end with it."""
    found = []
    ahead = [0] * len(lists)
    for first in lists[0]:
        moment = [first]
        for at, others in enumerate(lists[1:], 1):
            while ahead[at] < len(others) and _end(others[ahead[at]]) < first.start_us - _tolerance(first):
                ahead[at] += 1
            near = [one for one in others[ahead[at] : ahead[at] + NEAR] if _apart(first, one) <= _tolerance(first, one)]
            if not near:
                break
            moment.append(min(near, key=lambda one: _apart(first, one)))
        if len(moment) == len(lists):
            found.append(tuple(moment))
    return found


def _end(one: Collective) -> float:
    return one.start_us + one.duration_us


def _apart(one: Collective, other: Collective) -> float:
    return min(abs(one.start_us - other.start_us), abs(_end(one) - _end(other)))


def _tolerance(*some: Collective) -> float:
    return max(TOGETHER_US, TOGETHER_SHARE * max(one.duration_us for one in some))


def _by_key(rank: RankTrace) -> dict[str, list[Collective]]:
    found: dict[str, list[Collective]] = defaultdict(list)
    for collective in sorted(rank.collectives, key=lambda one: one.start_us):
        found[collective.key].append(collective)
    return found


def _add(moment: Moment, rows: Sequence[RankWait], same_clock: bool) -> None:
    """One collective as each rank saw it."""
    shortest = min(moment, key=lambda one: one.duration_us)
    longest = max(moment, key=lambda one: one.duration_us)
    beyond = [(one.duration_us - shortest.duration_us) / 1000 for one in moment]
    if same_clock and abs(shortest.start_us - longest.start_us) < abs(_end(shortest) - _end(longest)):
        for row, ms in zip(rows, beyond, strict=True):
            row.slow_ms += ms
        return
    last = moment.index(shortest)
    rows[last].last_to_arrive += 1
    rows[last].late_ms += statistics.median(ms for at, ms in enumerate(beyond) if at != last)
    for row, ms in zip(rows, beyond, strict=True):
        row.waited_ms += ms
