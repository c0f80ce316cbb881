"""What is kept of a recording: a folder a machine, in it `recording.json` and a JSON line a set for each condition.

Burst means only: the verdict rests on nothing finer, and so some hundred processes are a few hundred kilobytes.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from benchmarks import recordings
from benchmarks.calibration.conditions import BY_NAME
from benchmarks.recordings import HEADER
from optimizer.benchmarking.sets import MeasuredSet
from optimizer.benchmarking.summary import disturbed_shares
from optimizer.spec import Strict


class RecordedProcess(Strict):
    """One process of the contender. The rounds of a set are the same for all of its processes."""

    burst_means_ns: list[int] = Field(min_length=1)
    page_faults_per_call: float
    disturbed_share: float = Field(description="of its bursts: its threads waited for a core for more than 1 %")
    refused_bursts: int
    stable: bool = Field(description="whether the warm-up ended before its time was over")
    load_s: float


class RecordedSet(Strict):
    """Identical contenders, in the order in which they were started. A set that came to nothing has `lost`, the id of
    the error that ended it, and no processes."""

    at: datetime
    seconds: float
    load_average: float
    calls_per_burst: int = 0
    processes: list[RecordedProcess] = Field(default_factory=list)
    lost: str | None = None


class Header(Strict):
    """What must be the same for sets to lie in one folder, and (`observed`) what merely was so at the beginning."""

    model: str
    model_sha256: str
    rounds: int
    contenders: int
    seed: int
    fingerprint: str
    fixed: dict[str, Any]
    observed: dict[str, Any]


class Recording:
    """The folder of one machine. Sets are appended one by one, so that a recording which was cut goes on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def header(self) -> Header:
        return Header.model_validate_json((self.folder / HEADER).read_text())

    def begin(self, header: Header) -> None:
        """Raises RecordingError where the folder holds sets that these would not go with."""
        recordings.begin(self.folder, header, may_differ=("observed", "fixed"))

    def sets(self, condition: str) -> list[RecordedSet]:
        """In the order of their recording; none where there are none. Raises RecordingError."""
        return recordings.lines(self._file(condition), RecordedSet, "set")

    def append(self, condition: str, one: RecordedSet) -> None:
        recordings.append(self._file(condition), one)

    def conditions(self) -> list[str]:
        """Those of which there are sets, in the order of `CONDITIONS`."""
        return [name for name in BY_NAME if self._file(name).exists()]

    def _file(self, condition: str) -> Path:
        return self.folder / f"{condition}.jsonl"


def recorded(one: MeasuredSet, at: datetime) -> RecordedSet:
    """What is kept of a set as it was measured."""
    disturbed = disturbed_shares({name: [entrant] for name, entrant in one.entrants.items()})
    processes, calls = [], 0
    for name, entrant in one.entrants.items():
        calls = len(entrant.bursts[0].calls_ns)
        faults = sum(burst.page_faults for burst in entrant.bursts)
        processes.append(
            RecordedProcess(
                burst_means_ns=[round(burst.mean_ns) for burst in entrant.bursts],
                page_faults_per_call=round(faults / (calls * len(entrant.bursts)), 2),
                disturbed_share=disturbed[name],
                refused_bursts=entrant.refusals,
                stable=entrant.stable,
                load_s=round(entrant.load_s, 3),
            )
        )
    return RecordedSet(
        at=at,
        seconds=round(one.seconds, 2),
        load_average=round(one.load_average, 2),
        calls_per_burst=calls,
        processes=processes,
    )


def log_times(sets: list[RecordedSet]) -> np.ndarray:
    """[set, process]: the mean over rounds of the log of a burst's mean. Lost sets are left out."""
    return np.array(
        [[np.log(process.burst_means_ns).mean() for process in one.processes] for one in sets if one.lost is None]
    )
