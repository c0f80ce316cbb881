"""Purpose `diagnose`: what holds the job back that profiler traces were taken of. Nothing runs, nothing is measured.

Not for models: their findings are a part of every other run, with the profile of this machine.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path

from optimizer.coordinator.answer import Answer
from optimizer.coordinator.context import RunContext
from optimizer.coordinator.diagnose import against_files, of_traces
from optimizer.coordinator.traces import trace_files
from optimizer.diagnosing.traces.document import RankTrace
from optimizer.errors import FuseworksError


def diagnose_traces(context: RunContext, answer: Answer) -> None:
    """Raises FuseworksError: `diagnosing:user:...` names the file that is no trace."""
    path = Path(context.spec.model)
    files = trace_files(path)
    if files is None:
        raise FuseworksError("diagnosing:user:no-trace", place=path.name)
    before = against_files([Path(context.spec.against)]) if context.spec.against is not None else []
    total, number = len(files) + len(before), count(1)

    def read(rank: RankTrace) -> None:
        text = f"Read {rank.name}: {rank.events:,} events"
        context.events.emit("diagnosing", text, done=next(number), total=total)

    told = "trace" if total == 1 else "traces"
    with context.events.stage("diagnosing", f"Reading {total} {told}"):
        found = of_traces([path.name], files, before, trusted=context.spec.trusted, on_read=read)
    context.sandbox = found.sandbox
    answer.diagnosis, answer.summary, answer.notes = found, found.summary, list(found.notes)
