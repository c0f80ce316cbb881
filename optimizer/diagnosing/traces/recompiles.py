"""Compiled regions by their ids: `Torch-Compiled Region: 3/1` is frame 3, compiled for the second time."""

from __future__ import annotations

import re

from optimizer.diagnosing.traces.document import RankTrace

REGION = re.compile(r"Torch-Compiled Region: (\d+)/(\d+)")


def compilations(rank: RankTrace) -> dict[int, int]:
    """Times that each frame of Python was compiled, as far as its regions ran in the trace."""
    found: dict[int, int] = {}
    for name in rank.regions:
        match = REGION.match(name)
        if match:
            frame, number = int(match[1]), int(match[2])
            found[frame] = max(found.get(frame, 0), number + 1)
    return found


def recompiles(rank: RankTrace) -> int:
    return sum(count - 1 for count in compilations(rank).values())
