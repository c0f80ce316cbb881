"""One recorded call, operation by operation: when each began and how long it took. For a timeline, not for a table:
it is a single call, and what recorded it is in its times.
"""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.profiling.document import MOST_SPANS, GraphNode, OperationSpan
from optimizer.profiling.event_tree import Event
from optimizer.profiling.marks import owners, phase_at, spans


def operation_spans(call: Event, places: Sequence[GraphNode]) -> list[OperationSpan]:
    """In the order in which they began; of a call with very many operations the first ones."""
    parts = spans(call)
    found: list[OperationSpan] = []
    for owner in owners(call, places):
        if len(found) == MOST_SPANS:
            break
        place = owner.place
        found.append(
            OperationSpan(
                op=owner.op,
                module=place.module if place is not None else None,
                source=place.source if place is not None else None,
                phase=phase_at(parts, owner.event.start_ns),
                at_ms=(owner.event.start_ns - call.start_ns) / 1e6,
                ms=owner.event.ms,
            )
        )
    return found
