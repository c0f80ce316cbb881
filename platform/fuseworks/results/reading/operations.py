"""The operation table before and after, side by side: which rows of the two profiles are the same work.

A row stands for places: (operation, module, line). A row of the original is one; a kernel of the winner stands for each
node of the graph that its engine says is in it. Rows that share a place belong together, so that five operations before
may stand beside the one kernel after that holds them. What stands alone is in one profile only: before, no operation
after says that it holds it (it was removed, folded into weights, or its engine does not say); after, it is work of the
engine's own, such as a change of layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from fuseworks.results.reading.contenders import DEPLOYED
from optimizer.result import Operation, Result

MAX_ROWS = 60
DISTURBED = 1.5  # times the judged median

Place = tuple[str, str | None, str | None]


class Found(StrEnum):
    """Where a row's operations were found."""

    BOTH = "both"
    BEFORE = "before"
    AFTER = "after"


class NoAfter(StrEnum):
    """Why the winner has no profile."""

    NOT_PROFILED = "not_profiled"  # `not_profiled_because` in the document says why
    COMPARISON = "comparison"
    INSPECTION = "inspection"
    NOTHING_JUDGED = "nothing_judged"
    OLDER = "older"


@dataclass(frozen=True)
class Moment:
    """A profile's own calls beside the judged ones. `judged_ms` is None where nothing was judged."""

    unprofiled_ms: float | None
    judged_ms: float | None

    @property
    def disturbed(self) -> bool:
        """The same calls took so much longer than when they were judged that something else must have run."""
        if self.unprofiled_ms is None or not self.judged_ms:
            return False
        return self.unprofiled_ms > DISTURBED * self.judged_ms


def moments(result: Result) -> tuple[Moment, Moment]:
    """Of the profiles before and after. The original is profiled in its default settings: so it was judged, too, where
    those are not the winner's."""
    medians = {e.candidate.name: e.performance.median_ms for e in result.candidates if e.performance is not None}
    before, after = (p.unprofiled_ms if p else None for p in (result.profile, result.profile_after))
    return Moment(before, medians.get(DEPLOYED, result.baseline_ms)), Moment(after, result.best_ms)


@dataclass(frozen=True)
class Side:
    """Operations of one profile, by their position in it."""

    positions: list[int]
    operations: list[Operation]

    @property
    def self_ms(self) -> float | None:
        return sum(one.self_ms for one in self.operations) if self.operations else None

    @property
    def share(self) -> float | None:
        return sum(one.share for one in self.operations) if self.operations else None


@dataclass(frozen=True)
class Row:
    """One row of the table: what was the same work before and after."""

    before: Side
    after: Side

    @property
    def found(self) -> Found:
        if self.before.operations and self.after.operations:
            return Found.BOTH
        return Found.BEFORE if self.before.operations else Found.AFTER


def rows(result: Result) -> list[Row]:
    """Costliest first, by the larger of the two shares: milliseconds of two profilers are no common measure."""
    before = result.profile.operations if result.profile else []
    after = result.profile_after.operations if result.profile_after else []
    groups = _grouped([places(one) for one in (*before, *after)])
    table = []
    for group in groups:
        ours = [at for at in group if at < len(before)]
        theirs = [at - len(before) for at in group if at >= len(before)]
        table.append(Row(Side(ours, [before[at] for at in ours]), Side(theirs, [after[at] for at in theirs])))
    return sorted(table, key=lambda row: -max(row.before.share or 0.0, row.after.share or 0.0))


def places(operation: Operation) -> set[Place]:
    """Empty for what has no place in the graph: the row of all small ones, or a name that an engine made up."""
    if operation.nodes:
        return {(node.op, node.module, node.source) for node in operation.nodes if node.op is not None}
    return set() if operation.op.startswith("(") else {(operation.op, operation.module, operation.source)}


def _grouped(every: Sequence[set[Place]]) -> list[list[int]]:
    """Positions of those that hang together by places in common, each in the order of its first."""
    leader = list(range(len(every)))

    def root(at: int) -> int:
        while leader[at] != at:
            leader[at] = leader[leader[at]]
            at = leader[at]
        return at

    first: dict[Place, int] = {}
    for at, found in enumerate(every):
        for place in found:
            one, other = sorted((root(first.setdefault(place, at)), root(at)))
            leader[other] = one
    groups: dict[int, list[int]] = {}
    for at in range(len(every)):
        groups.setdefault(root(at), []).append(at)
    return list(groups.values())


def why_no_after(result: Result) -> NoAfter | None:
    """None when the winner has a profile."""
    if result.profile_after is not None:
        return None
    if result.not_profiled_because:
        return NoAfter.NOT_PROFILED
    if result.purpose == "compare":
        return NoAfter.COMPARISON
    if result.purpose == "inspect":
        return NoAfter.INSPECTION
    return NoAfter.NOTHING_JUDGED if result.winner is None else NoAfter.OLDER
