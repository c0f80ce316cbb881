"""In which order waiting runs are sent: the dispatcher follows it, and a run's place in the queue is read off it.

Inspections first: they are short, and an upload waits for its form. Then the business unit with the fewest runs at work
or on their way, then its team with the fewest, then who waited longest. Each run that is sent counts for its unit and
team at once, so that a unit with a hundred runs and one with two take turns. Pure: no database, no clock.
"""

from __future__ import annotations

import heapq
import uuid
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class Waiting:
    """A queued run, as far as its turn depends on it."""

    run_id: uuid.UUID
    team_id: uuid.UUID
    unit_id: uuid.UUID
    inspects: bool
    created_at: datetime


@dataclass(frozen=True)
class Load:
    """Runs of one target that are sent or at work, by business unit and by team."""

    units: Mapping[uuid.UUID, int]
    teams: Mapping[uuid.UUID, int]


def fair_order(waiting: Iterable[Waiting], load: Load) -> Iterator[Waiting]:
    """All of `waiting`, the next one first. Lazy: whoever has two workers free pays for two turns."""
    units, teams = Counter(load.units), Counter(load.teams)
    lines: dict[tuple[uuid.UUID, bool], deque[Waiting]] = {}
    for run in sorted(waiting, key=lambda run: (run.created_at, run.run_id)):
        lines.setdefault((run.team_id, run.inspects), deque()).append(run)

    def turn(run: Waiting) -> tuple[Any, ...]:
        return (not run.inspects, units[run.unit_id], teams[run.team_id], run.created_at, run.run_id)

    heap = [(turn(line[0]), key) for key, line in lines.items()]
    heapq.heapify(heap)
    while heap:
        known, key = heapq.heappop(heap)
        run = lines[key][0]
        now = turn(run)
        if now != known:  # others of its unit were sent meanwhile: counts only rise, so it goes back
            heapq.heappush(heap, (now, key))
            continue
        yield lines[key].popleft()
        units[run.unit_id] += 1
        teams[run.team_id] += 1
        if lines[key]:
            heapq.heappush(heap, (turn(lines[key][0]), key))
