"""A model's profile on a terminal: where a call spends its time, and whose bytes are alive at its peak."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.diagnosing.exporting.figures import plain, told
from optimizer.result import MemoryTimeline, Profile

MOST_OPERATIONS, MOST_OWNERS, NAME_WIDTH = 8, 5, 40


def lines(profile: Profile | None) -> Iterator[str]:
    if profile is None:
        return
    if profile.operations:
        yield ""
        yield "Where a call spends its time"
    for row in profile.operations[:MOST_OPERATIONS]:
        part = f"{row.phase}: " if row.phase else ""
        name = plain(f"{part}{row.op}")[:NAME_WIDTH]
        where = plain(row.source or row.module or "")
        yield f"  {told('ms', row.self_ms):>12}  {told('share', row.share):>6}  {name:<{NAME_WIDTH}}  {where}".rstrip()
    if profile.memory is not None and profile.memory.owners:
        yield from _memory(profile.memory)


def _memory(memory: MemoryTimeline) -> Iterator[str]:
    peak, resident = told("bytes", memory.peak_bytes), told("bytes", memory.resident_bytes)
    yield ""
    yield f"Memory at a call's peak: {peak}, beside {resident} that are there all the time"
    for owner in memory.owners[:MOST_OWNERS]:
        name = plain(f"{owner.phase}: {owner.op}" if owner.phase else owner.op)[:NAME_WIDTH]
        where = plain(owner.source or owner.module or "")
        size, share = told("bytes", owner.bytes), told("share", owner.share)
        yield f"  {size:>12}  {share:>6}  {name:<{NAME_WIDTH}}  {where}".rstrip()
