"""Times of one call on a device, in microseconds: by the device's own events, or by a wall clock where it has none.

Cold: what fills the device's cache lies between two calls, so that a call finds nothing of the last one there; the fill
also gives the host a lead, so that short kernels are not timed by how fast Python starts them. A call with several
launches is timed whole, with the gaps between them.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch

FEWEST, MOST = 5, 50
LEAST_FILL_BYTES = 64 << 20


class Clock(ABC):
    @abstractmethod
    def times_us(self, call: Callable[[], object], *, limit_s: float = 0.1, cold: bool = True) -> list[float]:
        """At least FEWEST and at most MOST times of one call, after warm-up, in about the time that is allowed."""

    @abstractmethod
    def wait(self) -> None:
        """Until all that was started has ended."""


class DeviceClock(Clock):
    def __init__(self) -> None:
        cache = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0)
        self._fill = torch.empty(max(2 * cache, LEAST_FILL_BYTES), dtype=torch.int8, device="cuda")

    def times_us(self, call: Callable[[], object], *, limit_s: float = 0.1, cold: bool = True) -> list[float]:
        for _ in range(2):
            call()
        self.wait()
        began = time.perf_counter()
        self._fill.zero_()
        call()
        self.wait()
        count = _count(time.perf_counter() - began, limit_s)
        events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(count)]
        for before, after in events:
            if cold:
                self._fill.zero_()
            before.record()
            call()
            after.record()
        self.wait()
        return [1e3 * before.elapsed_time(after) for before, after in events]

    def wait(self) -> None:
        torch.cuda.synchronize()


class WallClock(Clock):
    """Under the interpreter: it holds the same calls together, and its times say nothing of any device."""

    def times_us(self, call: Callable[[], object], *, limit_s: float = 0.1, cold: bool = True) -> list[float]:
        found = []
        for _ in range(2):
            began = time.perf_counter()
            call()
            found.append(1e6 * (time.perf_counter() - began))
        return found

    def wait(self) -> None:
        """Each call has ended when it returns."""


def _count(one_s: float, limit_s: float) -> int:
    return max(FEWEST, min(MOST, int(limit_s / max(one_s, 1e-6))))
