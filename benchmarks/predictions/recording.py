"""What is kept of a recording: a folder a machine, in it `recording.json` and `variants.jsonl`, a line a variant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from benchmarks import recordings
from benchmarks.recordings import HEADER, RecordingError
from optimizer.diagnosing.correcting import Record
from optimizer.spec import Strict

LINES = "variants.jsonl"
ALIKE = 0.6  # of their operations: such models are one, when errors on models that were not seen are told


class RecordedGain(Strict):
    """One finding of a variant: its prediction before any correction, and what was measured of its remedy."""

    key: str = Field(description="rule and remedy")
    low: float
    high: float
    cost_share: float | None = None
    log_speedups: list[float] = Field(default_factory=list, description="one per set of fresh processes")
    not_measured: str = ""

    @property
    def realised(self) -> float:
        return math.exp(sum(self.log_speedups) / len(self.log_speedups))


class RecordedVariant(Strict):
    """`lost`: the error that ended it, with no gains then."""

    model: str
    factors: dict[str, float] = Field(default_factory=dict)
    at: datetime
    seconds: float
    load_averages: list[float] = Field(default_factory=list, description="when each set ended")
    beside_other_work: bool = False
    call_ms: float | None = None
    operations: dict[str, int] = Field(default_factory=dict)
    gains: list[RecordedGain] = Field(default_factory=list)
    lost: str | None = None

    @property
    def is_original(self) -> bool:
        return not self.factors


class Header(Strict):
    """The machine and how it was measured: what must be the same for variants to lie in one folder."""

    how: Literal["processes", "cpu_time"] = "processes"
    sets: int
    rounds: int
    seed: int
    fingerprint: str
    fixed: dict[str, Any]
    note: str = Field(default="", description="what a reader of its figures must know besides")


class Recording:
    """The folder of one machine. Variants are appended one by one, so that a recording which was cut goes on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def header(self) -> Header:
        try:
            return Header.model_validate_json((self.folder / HEADER).read_text())
        except (OSError, ValidationError) as error:
            raise RecordingError(f"{self.folder / HEADER} cannot be read: {error}") from error

    def begin(self, header: Header) -> None:
        """Raises RecordingError where the folder holds what these would not go with."""
        recordings.begin(self.folder, header, may_differ=("fixed", "note"))

    def variants(self) -> list[RecordedVariant]:
        """In the order of their recording. Raises RecordingError."""
        return recordings.lines(self.folder / LINES, RecordedVariant, "variant")

    def append(self, one: RecordedVariant) -> None:
        recordings.append(self.folder / LINES, one)


def records(variants: Sequence[RecordedVariant]) -> list[Record]:
    """One a measured gain. Models of alike operations count as one model: a twin is nothing that was not seen."""
    names = _groups({one.model: one.operations for one in reversed(variants) if one.operations})
    return [
        Record(key=gain.key, model=names[one.model], low=gain.low, high=gain.high, realised=gain.realised)
        for one in variants
        for gain in one.gains
        if gain.log_speedups
    ]


def _groups(operations: dict[str, dict[str, int]]) -> dict[str, str]:
    """By model, the name of the first that it is like."""
    from optimizer.coordinator.outcomes import likeness

    found: dict[str, str] = {}
    for name in sorted(operations):
        like = (one for one in sorted(found) if likeness(operations[name], operations[one]) >= ALIKE)
        found[name] = next((found[one] for one in like), name)
    return found
