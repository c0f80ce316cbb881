"""The events of one rank as columns of numbers: forty bytes an event, whatever a name's length."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

MAX_NAMES = 50_000
MAX_NAME_CHARS = 4_000
MAX_ALL_CHARS = 32 << 20
OTHER = "(one of too many names)"


class Activity(IntEnum):
    """What a GPU did."""

    KERNEL = 0
    COPY = 1
    SET = 2


class Names:
    """Names to small numbers, bounded: a trace of nothing but new names must not fill the memory."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {OTHER: 0}
        self.texts = [OTHER]
        self._chars = 0

    def number(self, name: str) -> int:
        known = self._numbers.get(name)
        if known is None:
            short = name[:MAX_NAME_CHARS]
            known = self._numbers.get(short)
            if known is None:
                if len(self.texts) >= MAX_NAMES or self._chars > MAX_ALL_CHARS:
                    return 0
                self._chars += len(short)
                known = self._numbers[short] = len(self.texts)
                self.texts.append(short)
        return known


@dataclass
class Columns:
    """Events of one kind, in the order of the file. Times in microseconds."""

    start: array[float] = field(default_factory=lambda: array("d"))
    duration: array[float] = field(default_factory=lambda: array("d"))
    name: array[int] = field(default_factory=lambda: array("i"))
    thread: array[int] = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self.start)

    def add(self, start: float, duration: float, name: int, thread: int) -> None:
        self.start.append(start)
        self.duration.append(duration)
        self.name.append(name)
        self.thread.append(thread)

    def starts(self) -> np.ndarray:
        return np.frombuffer(self.start, np.float64) if len(self) else np.empty(0)

    def durations(self) -> np.ndarray:
        return np.frombuffer(self.duration, np.float64) if len(self) else np.empty(0)

    def ends(self) -> np.ndarray:
        return self.starts() + self.durations()

    def names(self) -> np.ndarray:
        return np.frombuffer(self.name, np.intc) if len(self) else np.empty(0, np.intc)

    def threads(self) -> np.ndarray:
        return np.frombuffer(self.thread, np.int64) if len(self) else np.empty(0, np.int64)


@dataclass
class CallColumns(Columns):
    """Calls of the runtime (`cudaLaunchKernel`); `correlation` leads to what the GPU then did."""

    correlation: array[int] = field(default_factory=lambda: array("q"))

    def correlations(self) -> np.ndarray:
        return np.frombuffer(self.correlation, np.int64) if len(self) else np.empty(0, np.int64)


@dataclass
class GpuColumns(CallColumns):
    """What GPUs did; `thread` is the stream. `blocks_per_sm` and `occupancy_percent` are NaN where not told."""

    activity: array[int] = field(default_factory=lambda: array("b"))
    device: array[int] = field(default_factory=lambda: array("i"))
    blocks_per_sm: array[float] = field(default_factory=lambda: array("f"))
    occupancy_percent: array[float] = field(default_factory=lambda: array("f"))
    size_bytes: array[int] = field(default_factory=lambda: array("q"))

    def activities(self) -> np.ndarray:
        return np.frombuffer(self.activity, np.int8) if len(self) else np.empty(0, np.int8)

    def devices(self) -> np.ndarray:
        return np.frombuffer(self.device, np.intc) if len(self) else np.empty(0, np.intc)

    def blocks(self) -> np.ndarray:
        return np.frombuffer(self.blocks_per_sm, np.float32) if len(self) else np.empty(0, np.float32)

    def occupancies(self) -> np.ndarray:
        return np.frombuffer(self.occupancy_percent, np.float32) if len(self) else np.empty(0, np.float32)

    def sizes(self) -> np.ndarray:
        return np.frombuffer(self.size_bytes, np.int64) if len(self) else np.empty(0, np.int64)
