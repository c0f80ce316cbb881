"""One recorded call in the trace-event format, which ui.perfetto.dev and chrome://tracing open: parts of a training
step, modules and operations inside them, and the memory of the call as a counter. No torch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from optimizer.profiling.document import MemoryTimeline, OperationSpan, Profile

PROCESS, PARTS, OPERATIONS = 1, 1, 2
Json = dict[str, Any]


def write(profile: Profile, name: str) -> str:
    """`name`: what the process is called, such as the model's file."""
    return json.dumps(document(profile, name), ensure_ascii=False)


def document(profile: Profile, name: str) -> Json:
    events = [
        _about("process_name", name),
        _about("thread_name", "operations", OPERATIONS),
        *_slices(profile.timeline),
    ]
    if profile.memory is not None:
        if profile.memory.phases:
            events.append(_about("thread_name", "parts of the step", PARTS))
        events += _memory(profile.memory)
    return {
        "displayTimeUnit": "ms",
        "otherData": {"how_obtained": profile.how_obtained, "profiling_overhead": profile.overhead},
        "traceEvents": events,
    }


def _about(what: str, name: str, thread: int = 0) -> Json:
    return {"ph": "M", "name": what, "pid": PROCESS, "tid": thread, "args": {"name": name}}


def _slice(name: str, kind: str, at_ms: float, ms: float, thread: int, **args: Any) -> Json:
    known = {key: value for key, value in args.items() if value is not None}
    times = {"ts": round(at_ms * 1e3, 3), "dur": round(ms * 1e3, 3)}
    return {"ph": "X", "name": name, "cat": kind, "pid": PROCESS, "tid": thread, **times, "args": known}


def _memory(memory: MemoryTimeline) -> Iterator[Json]:
    for span in memory.phases:
        yield _slice(span.name, "part", span.from_ms, span.to_ms - span.from_ms, PARTS)
    for at_ms, size in memory.points:
        counted = {"name": "memory of the call", "args": {"bytes": size}}
        yield {"ph": "C", "pid": PROCESS, "tid": 0, "ts": round(at_ms * 1e3, 3), **counted}


def _slices(timeline: Sequence[OperationSpan]) -> Iterator[Json]:
    """A module lasts from its first operation to its last, as long as nothing else runs between them."""
    open_modules: list[tuple[str, float]] = []
    ends = 0.0
    for span in timeline:
        path = span.module.split(".") if span.module else []
        kept = _common([name for name, _ in open_modules], path)
        yield from _closed(open_modules, kept, ends)
        open_modules += [(name, span.at_ms) for name in path[kept:]]
        ends = span.at_ms + span.ms
        about = {"module": span.module, "source": span.source, "phase": span.phase}
        yield _slice(span.op, "operation", span.at_ms, span.ms, OPERATIONS, **about)
    yield from _closed(open_modules, 0, ends)


def _closed(open_modules: list[tuple[str, float]], kept: int, ends_ms: float) -> Iterator[Json]:
    while len(open_modules) > kept:
        name, began_ms = open_modules.pop()
        yield _slice(name, "module", began_ms, ends_ms - began_ms, OPERATIONS)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count
