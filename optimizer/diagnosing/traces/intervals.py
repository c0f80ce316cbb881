"""Unions of intervals, and how much of them lies where. Times in microseconds, as numpy arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Union:
    """Disjoint, sorted intervals."""

    starts: np.ndarray
    ends: np.ndarray

    @property
    def length(self) -> float:
        return float((self.ends - self.starts).sum())

    def before(self, moments: np.ndarray) -> np.ndarray:
        """How much of the union lies before each moment."""
        if not len(self.starts):
            return np.zeros(len(moments))
        done = np.concatenate(([0.0], np.cumsum(self.ends - self.starts)))
        at = np.searchsorted(self.starts, moments, side="right")
        last = np.maximum(at - 1, 0)
        too_much = np.where(at > 0, np.maximum(self.ends[last] - moments, 0.0), 0.0)
        return np.asarray(done[at] - too_much)

    def within(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """How much of the union lies in each of these intervals (0 where one ends before it starts)."""
        return np.asarray(np.where(ends > starts, self.before(ends) - self.before(starts), 0.0))

    def covers(self, moments: np.ndarray) -> np.ndarray:
        """Whether each moment lies inside, the ends included."""
        if not len(self.starts):
            return np.zeros(len(moments), bool)
        at = np.searchsorted(self.starts, moments, side="right") - 1
        return np.asarray((at >= 0) & (self.ends[np.maximum(at, 0)] >= moments))

    def common(self, other: Union) -> float:
        """Length of what both cover."""
        return float(self.within(other.starts, other.ends).sum())

    def gaps(self) -> Union:
        """What lies between its intervals."""
        return Union(self.ends[:-1], self.starts[1:])


def union(starts: np.ndarray, ends: np.ndarray) -> Union:
    if not len(starts):
        return Union(np.empty(0), np.empty(0))
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    first = np.concatenate(([True], starts[1:] > reach[:-1]))
    return Union(starts[first], reach[np.concatenate((first[1:], [True]))])


def both(one: Union, other: Union) -> Union:
    """The union of two unions."""
    return union(np.concatenate((one.starts, other.starts)), np.concatenate((one.ends, other.ends)))
