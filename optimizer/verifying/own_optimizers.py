"""Which of a runtime's own optimizers make its answers wrong: found by leaving out ever fewer of them.

Knows no runtime. Not for rewrites of ours: those are told by the graph (`bisect.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Right = Callable[[Sequence[str]], bool]


def guilty(right_without: Right, optimizers: Sequence[str], *, most_tries: int = 40) -> list[str] | None:
    """A set of optimizers of which none can be had back without a wrong answer: one, where one is guilty alone.

    `right_without(names)`: whether the answers are right without those. None when they are wrong without all of them,
    or right with all. What is left when `most_tries` are over is right, and may hold some that are innocent.
    """
    left = list(optimizers)
    if right_without([]) or not right_without(left):
        return None
    tries, size = 2, max(1, len(left) // 2)
    while tries < most_tries:
        for at in range(0, len(left), size):
            fewer = left[:at] + left[at + size :]
            tries += 1
            if fewer and right_without(fewer):
                left = fewer
                size = max(1, min(size, len(left) // 2))
                break
            if tries >= most_tries:
                break
        else:
            if size == 1:
                break
            size = max(1, size // 2)
    return left
