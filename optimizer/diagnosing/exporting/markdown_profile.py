"""Where a call of a model spends its time and memory, as tables of a Markdown report."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.diagnosing.exporting.figures import told
from optimizer.diagnosing.exporting.markdown_text import code, table, text
from optimizer.result import MemoryTimeline, Profile

MOST_OPERATIONS, MOST_OWNERS = 15, 10


def lines(profile: Profile | None) -> Iterator[str]:
    if profile is None:
        return
    yield "\n## Where a call spends its time\n"
    yield f"{text(profile.how_obtained)} {_cost(profile)}".strip()
    if profile.phases:
        rows = [(phase.name, told("ms", phase.ms), told("share", phase.share)) for phase in profile.phases]
        yield ""
        yield from table(("part of a step", "time", "share"), rows, (1, 2))
    yield ""
    yield from table(("operation", "module", "at", "time", "share", "of roof"), list(_rows(profile)), (3, 4, 5))
    if profile.memory is not None:
        yield from _memory(profile.memory)


def _cost(profile: Profile) -> str:
    if profile.overhead is None:
        return ""
    whole = f", and all of the profiling took {profile.took_s:.1f} s" if profile.took_s is not None else ""
    return f"The profiler made the call {profile.overhead:.2f} times as long{whole}."


def _rows(profile: Profile) -> Iterator[tuple[str, ...]]:
    for row in profile.operations[:MOST_OPERATIONS]:
        where = [code(place) if place else "" for place in (row.module, row.source)]
        times = [told("ms", row.self_ms), told("share", row.share), told("share", row.attainable_share)]
        yield code(row.op), *where, *times


def _memory(memory: MemoryTimeline) -> Iterator[str]:
    yield "\n## Memory of a call\n"
    peak, resident = told("bytes", memory.peak_bytes), told("bytes", memory.resident_bytes)
    yield f"At its peak, {memory.peak_at_ms:.2f} ms after it began, a call holds {peak}; {resident} are there all the"
    yield f"time. {text(memory.how_obtained)}\n"
    rows = [
        (
            code(owner.op),
            code(owner.module) if owner.module else "",
            code(owner.source) if owner.source else "",
            told("bytes", owner.bytes),
            told("share", owner.share),
        )
        for owner in memory.owners[:MOST_OWNERS]
    ]
    yield from table(("alive at the peak", "module", "at", "bytes", "share"), rows, (3, 4))
