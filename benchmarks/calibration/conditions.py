"""The four conditions under which identical processes are recorded: quiet or beside a neighbour, two allocators."""

from __future__ import annotations

from typing import NamedTuple

from optimizer.spec import RuntimeSettings


class Condition(NamedTuple):
    """`noisy`: the neighbour of `neighbour.py` runs beside. `settings`: those of every contender."""

    name: str
    noisy: bool
    settings: RuntimeSettings
    in_words: str


DEFAULT, PINNED = RuntimeSettings(), RuntimeSettings(allocator="glibc-no-trim")

CONDITIONS = (
    Condition("quiet-default", False, DEFAULT, "quiet, default allocator"),
    Condition("quiet-pinned", False, PINNED, "quiet, pinned allocator"),
    Condition("noisy-default", True, DEFAULT, "noisy neighbour, default allocator"),
    Condition("noisy-pinned", True, PINNED, "noisy neighbour, pinned allocator"),
)
BY_NAME = {one.name: one for one in CONDITIONS}
