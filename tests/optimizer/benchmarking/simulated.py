"""A simulated contender: each process draws an effect of its own, each burst another. Times are made up, not measured.

The calls it reports last microseconds, so that the outer clock's slack of 5 ms takes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from optimizer.sandbox import Reply

CALL_NS = 20_000.0


class SimulatedChild:
    def __init__(self, rng: np.random.Generator, speedup: float, process_sd: float, burst_sd: float) -> None:
        self.rng = rng
        self.process = -math.log(speedup) + rng.normal(0, process_sd)
        self.burst_sd = burst_sd
        self.staged: list[np.ndarray] = []
        self.calls = 0
        self.running, self.killed = True, False

    def call(self, op: str, arrays: Sequence[np.ndarray] = (), *, timeout_s: float, **fields: Any) -> Reply:
        assert self.running and not self.killed, f"{op} was sent to a child that is stopped"
        name = op.partition(".")[2]
        return getattr(self, name)(list(arrays), fields)  # type: ignore[no-any-return]

    def stage(self, arrays: list[np.ndarray], fields: dict[str, Any]) -> Reply:
        self.staged, self.calls = arrays, fields["calls"]
        return Reply({}, [])

    def warm_up(self, arrays: list[np.ndarray], fields: dict[str, Any]) -> Reply:
        return Reply({"calls": 20, "first_ns": 99, "median_ns": 15_000_000, "stable": True, "clock_ns": 40}, [])

    def go(self, arrays: list[np.ndarray], fields: dict[str, Any]) -> Reply:
        level = CALL_NS * math.exp(self.process + self.rng.normal(0, self.burst_sd))
        times = np.full(self.calls, max(1, round(level)), dtype=np.int64)
        return Reply({"total_ns": int(times.sum()), "page_faults": 0, "wait_ns": 0}, [times])

    def outputs(self, arrays: list[np.ndarray], fields: dict[str, Any]) -> Reply:
        return Reply({"outputs_per_set": 1}, [self.answer(self.staged[i]) for i in fields["indices"]])

    def answer(self, staged: np.ndarray) -> np.ndarray:
        return staged * 2

    def memory(self, arrays: list[np.ndarray], fields: dict[str, Any]) -> Reply:
        return Reply({"rss_bytes": 1, "peak_rss_bytes": 7 << 20, "allocator_peak_bytes": None}, [])

    def pause(self) -> None:
        self.running = False

    def resume(self) -> None:
        self.running = True

    def kill(self) -> None:
        self.killed = True


class GrowingChild(SimulatedChild):
    """Takes `faults[n]` page faults in its n-th burst, the last figure from then on; a burst with faults takes thrice
    as long, and burst number `disturbed` a hundred times. `lengths` are the calls of each burst."""

    def __init__(self, faults: list[int], *, speedup: float = 1.0, disturbed: int | None = None) -> None:
        super().__init__(np.random.default_rng(0), speedup, 0.0, 0.0)
        self.faults, self.disturbed = faults, disturbed
        self.lengths: list[int] = []

    def go(self, arrays: list[np.ndarray], fields: dict[str, Any]) -> Reply:
        number = len(self.lengths)
        faults = self.faults[min(number, len(self.faults) - 1)]
        self.lengths.append(self.calls)
        reply = super().go(arrays, fields)
        slower = (3 if faults else 1) * (100 if number == self.disturbed else 1)
        return Reply({**reply.fields, "page_faults": faults}, [reply.arrays[0] * slower])


def starter(
    rng: np.random.Generator, speedup: float = 1.0, process_sd: float = 0.01, burst_sd: float = 0.01
) -> Callable[[], SimulatedChild]:
    return lambda: SimulatedChild(rng, speedup, process_sd, burst_sd)


def drawer(rng: np.random.Generator) -> Callable[[], list[np.ndarray]]:
    return lambda: [rng.standard_normal(4)]
